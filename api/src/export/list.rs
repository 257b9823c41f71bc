//! The exported lists, and the schema fields that become their columns.

/// The parent of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListParent {
    /// The viewer's account.
    Account,
    /// A cluster.
    Cluster,
    /// A computation of a cluster.
    Computation,
    /// An error group of the account.
    ErrorGroup,
    /// A span of a cluster.
    Span,
}

impl ListParent {
    /// Returns the parent's type in the schema.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Account => "Account",
            Self::Cluster => "Cluster",
            Self::Computation => "Computation",
            Self::ErrorGroup => "ErrorGroup",
            Self::Span => "Span",
        }
    }

    /// Returns the parent's name in a sentence.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Cluster => "cluster",
            Self::Computation => "computation",
            Self::ErrorGroup => "error group",
            Self::Span => "span",
        }
    }

    /// Returns the path segment of the parent's collection. `None` for the account, which the
    /// credentials determine.
    pub(super) fn segment(self) -> Option<&'static str> {
        match self {
            Self::Account => None,
            Self::Cluster => Some("clusters"),
            Self::Computation => Some("computations"),
            Self::ErrorGroup => Some("error-groups"),
            Self::Span => Some("spans"),
        }
    }

    /// Returns the selection that finds the object `$_of` and selects `inside` of it.
    pub(super) fn select(self, selection: &str) -> String {
        match self {
            Self::Account => format!("account(slug: $_of) {{ {selection} }}"),
            Self::Cluster => format!("cluster(id: $_of) {{ {selection} }}"),
            _ => format!("node(id: $_of) {{ ... on {} {{ {selection} }} }}", self.type_name()),
        }
    }

    /// Returns the type of the variable `$_of`.
    pub(super) fn identifier_type(self) -> &'static str {
        match self {
            Self::Account => "String!",
            _ => "ID!",
        }
    }
}

/// A list that can be exported.
pub(super) struct List {
    pub(super) parent: ListParent,
    /// The schema field. The export takes its name and arguments.
    pub(super) field: &'static str,
    /// The selection on each item. Each leaf becomes a column.
    pub(super) columns: &'static str,
    /// The page size. It is small where texts may be long, or where an item's fields read many rows.
    pub(super) page_size: i32,
}

/// The page size for short rows.
const SHORT_ROWS: i32 = 1_000;

/// The page size for rows with texts from people and programs.
const LONG_ROWS: i32 = 250;

/// The page size for rows with the longest texts, or with computed values.
const FEW_ROWS: i32 = 100;

/// The field of fine metrics. The schema has only their totals; the export lists them by span.
pub(super) const FINE_METRICS: &str = "fineMetrics";

const CLUSTER: &str = "id number schedulerId name address dashboardUrl user { id name } state desiredState startedAt \
    endedAt durationSeconds closeReason lastSeenAt idleSince tags { key value } notes { text } \
    now { at workers threads memoryUsed memoryLimit } totals { tasks tasksSucceeded tasksErred errors bytes workers \
    peakWorkers peakThreads computeSeconds transferSeconds threadSeconds } \
    usage { workerSeconds memoryGibSeconds unobservedSeconds idleSeconds spillSeconds utilization retries spilledBytes \
    causes { cause seconds } costs { amount currency basis } } environment { python os osRelease machine }";

const COMPUTATION: &str = "id daskId cluster { id number name } state startedAt endedAt wallSeconds \
    totals { tasks states { state count } tasksSucceeded tasksErred tasksRetried computeSeconds transferSeconds bytes \
    includesOtherComputations } \
    spans { id }";

const SPAN: &str = "id number daskId cluster { id number name } parent { id } path tag enqueuedAt startedAt stoppedAt done \
    clientStartedAt clientStoppedAt totals(inclusive: false) { tasks tasksSucceeded tasksErred tasksRetried \
    computeSeconds transferSeconds bytes } collections";

const ERROR: &str = "id number at cluster { id number name } computation { id } taskGroup { id name } group { id } key type \
    message traceback worker workerId origin retries";

const ERROR_GROUP: &str = "id type title origin firstSeenAt lastSeenAt status statusChangedAt \
    statusChangedBy { id name } regressedAt occurrenceCount clusterCount";

const EVENT: &str = "at topic cluster { id number name } workerId data";

const LOG_LINE: &str = "at cluster { id number name } source worker workerId level logger message repeated";

const TASK_GROUP: &str = "id name prefix cluster { id number name } span { id } firstSeenAt startedAt endedAt \
    states { state count } tasks tasksSucceeded tasksErred tasksBlamed tasksRetried durations { action seconds } bytes \
    types dependencies { id }";

const WORKER: &str = "id number daskId cluster { id number name } name address host threads memoryLimit startedAt endedAt \
    end { at kind processingKeys processing lostResults lastMemory lastMemoryShare lastSeenAt } \
    environment { python os osRelease machine }";

const CLIENT: &str = "daskId connectedAt disconnectedAt environment { python os osRelease machine }";

const THREAD_CHANGE: &str = "at threads";

const FUNCTION: &str =
    "prefix computeSeconds transferSeconds tasks tasksErred bytes costs { amount currency basis }";

const USAGE_ROW: &str = "start end day user { id name } tag { key value } version clusters \
    usage { threadSeconds computeSeconds transferSeconds workerSeconds memoryGibSeconds unobservedSeconds idleSeconds spillSeconds \
    utilization causes { cause seconds } tasks tasksErred retries errors bytes spilledBytes workers \
    costs { amount currency basis } } \
    function { prefix computeSeconds transferSeconds tasks tasksErred bytes }";

const USAGE_HOUR: &str = "start usage { threadSeconds computeSeconds transferSeconds workerSeconds memoryGibSeconds unobservedSeconds \
    idleSeconds spillSeconds utilization causes { cause seconds } tasks tasksErred retries errors bytes spilledBytes \
    workers costs { amount currency basis } }";

const FLAG: &str = "kind text cluster { id number name } since until isActive value threshold unit worker { id name } \
    errorGroup { id } function packages isMuted";

const ALERT: &str = "identifier ruleIdentifier ruleName since until isActive value unit cluster { id number name } \
    user { id name } flag";

const ALERT_RULE: &str = "identifier name isEnabled condition { __typename ... on FlagsCondition { kinds } \
    ... on FailuresCondition { count withinSeconds of } ... on CostCondition { amount currency days of } \
    ... on IdleCondition { forSeconds } } users { id name } tags { key value } coolDownSeconds sendsResolved webhooks emails \
    createdAt changedAt changedBy { id name }";

const ALERT_DELIVERY: &str = "identifier ruleIdentifier ruleName channel event target state createdAt attempts \
    nextAttemptAt endedAt lastError";

const MEMBER: &str = "user { id name } role since until isOver";

const TOKEN: &str = "identifier label scopes user { id name } createdAt expiresAt lastUsedAt schedulerId \
    broadUseAt revokedAt";

const INVITATION: &str = "identifier name label role until invitedBy { id name } createdAt expiresAt revokedAt \
    acceptedAt acceptedBy { id name } isOpen";

const SAVED_VIEW: &str =
    "id name page parameters isShared user { id name } createdAt changedAt viewerCanChange";

const PERFORMANCE_REPORT: &str = "identifier name visibility size path createdAt user { id name }";

const AUDIT_ENTRY: &str = "at action outcome user { id } userName credential tokenIdentifier address requestId \
    target { kind id } detail";

const FINE_METRIC: &str = "context function activity unit value spanAttributable";

/// All exported lists: those with pages in the schema, and some without.
pub(super) const LISTS: [List; 38] = [
    account_list("clusters", CLUSTER, FEW_ROWS),
    account_list("computations", COMPUTATION, SHORT_ROWS),
    account_list("spans", SPAN, FEW_ROWS),
    account_list("errors", ERROR, FEW_ROWS),
    account_list("errorGroups", ERROR_GROUP, LONG_ROWS),
    account_list("events", EVENT, LONG_ROWS),
    account_list("logs", LOG_LINE, LONG_ROWS),
    account_list("functions", FUNCTION, SHORT_ROWS),
    account_list("usageTable", USAGE_ROW, SHORT_ROWS),
    account_list("flags", FLAG, LONG_ROWS),
    account_list("alerts", ALERT, LONG_ROWS),
    account_list("alertRules", ALERT_RULE, LONG_ROWS),
    account_list("alertDeliveries", ALERT_DELIVERY, LONG_ROWS),
    account_list("performanceReports", PERFORMANCE_REPORT, SHORT_ROWS),
    account_list("savedViews", SAVED_VIEW, SHORT_ROWS),
    account_list("members", MEMBER, SHORT_ROWS),
    account_list("invitations", INVITATION, SHORT_ROWS),
    account_list("tokens", TOKEN, SHORT_ROWS),
    account_list("schedulerTokens", TOKEN, SHORT_ROWS),
    account_list("auditLog", AUDIT_ENTRY, SHORT_ROWS),
    list_of(ListParent::Cluster, "computations", COMPUTATION, SHORT_ROWS),
    list_of(ListParent::Cluster, "taskGroups", TASK_GROUP, SHORT_ROWS),
    list_of(ListParent::Cluster, "spans", SPAN, FEW_ROWS),
    list_of(ListParent::Cluster, "errors", ERROR, FEW_ROWS),
    list_of(ListParent::Cluster, "events", EVENT, LONG_ROWS),
    list_of(ListParent::Cluster, "logs", LOG_LINE, LONG_ROWS),
    list_of(ListParent::Cluster, "flags", FLAG, LONG_ROWS),
    list_of(ListParent::Cluster, "workers", WORKER, SHORT_ROWS),
    list_of(ListParent::Cluster, "clients", CLIENT, SHORT_ROWS),
    list_of(ListParent::Cluster, "threadHistory", THREAD_CHANGE, SHORT_ROWS),
    list_of(ListParent::Cluster, "functions", FUNCTION, SHORT_ROWS),
    list_of(ListParent::Cluster, "usageHours", USAGE_HOUR, SHORT_ROWS),
    list_of(ListParent::Cluster, FINE_METRICS, FINE_METRIC, SHORT_ROWS),
    list_of(ListParent::Computation, "taskGroups", TASK_GROUP, SHORT_ROWS),
    list_of(ListParent::Computation, "errors", ERROR, FEW_ROWS),
    list_of(ListParent::ErrorGroup, "occurrences", ERROR, FEW_ROWS),
    list_of(ListParent::Span, "children", SPAN, FEW_ROWS),
    list_of(ListParent::Span, "taskGroups", TASK_GROUP, SHORT_ROWS),
];

const fn account_list(field: &'static str, columns: &'static str, page_size: i32) -> List {
    list_of(ListParent::Account, field, columns, page_size)
}

const fn list_of(parent: ListParent, field: &'static str, columns: &'static str, page_size: i32) -> List {
    List { parent, field, columns, page_size }
}
