//! Which lists there are, and which of the schema's fields are their columns.

/// What has the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// The viewer's account.
    Account,
    /// One cluster.
    Cluster,
    /// One computation of a cluster.
    Computation,
    /// One group of errors of the account.
    ErrorGroup,
    /// One span of a cluster.
    Span,
}

impl Of {
    /// Its type in the schema.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Account => "Account",
            Self::Cluster => "Cluster",
            Self::Computation => "Computation",
            Self::ErrorGroup => "ErrorGroup",
            Self::Span => "Span",
        }
    }

    /// What it is called in a sentence.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::Cluster => "cluster",
            Self::Computation => "computation",
            Self::ErrorGroup => "error group",
            Self::Span => "span",
        }
    }

    /// Where those like it stand in an address; nothing for the account, which the credentials name.
    pub(super) fn segment(self) -> Option<&'static str> {
        match self {
            Self::Account => None,
            Self::Cluster => Some("clusters"),
            Self::Computation => Some("computations"),
            Self::ErrorGroup => Some("error-groups"),
            Self::Span => Some("spans"),
        }
    }

    /// The selection that finds the one that `$_of` names and selects `inside` of it.
    pub(super) fn select(self, inside: &str) -> String {
        match self {
            Self::Account => format!("account(slug: $_of) {{ {inside} }}"),
            Self::Cluster => format!("cluster(id: $_of) {{ {inside} }}"),
            _ => format!("node(id: $_of) {{ ... on {} {{ {inside} }} }}", self.type_name()),
        }
    }

    /// The type of `$_of`.
    pub(super) fn identifier_type(self) -> &'static str {
        match self {
            Self::Account => "String!",
            _ => "ID!",
        }
    }
}

/// A list that can be exported.
pub(super) struct List {
    pub(super) of: Of,
    /// The field of the schema, whose name and arguments are those of the export.
    pub(super) field: &'static str,
    /// What is selected of each item: each leaf is a column.
    pub(super) columns: &'static str,
    /// Items that are read at once. Few where texts may be long, or where an item's fields look at many rows.
    pub(super) page: i32,
}

/// Items of a page whose rows are short.
const SHORT_ROWS: i32 = 1_000;

/// Items of a page whose rows hold texts that people and programs wrote.
const LONG_ROWS: i32 = 250;

/// Items of a page whose rows hold the longest texts, or of which something is computed.
const FEW_ROWS: i32 = 100;

/// The cells of fine metrics, which the schema has as sums alone: these are told span by span.
pub(super) const FINE_METRICS: &str = "fineMetrics";

const CLUSTER: &str = "id number schedulerId name address dashboardUrl user { id name } state desiredState startedAt \
    endedAt durationSeconds closeReason lastSeenAt idleSince tags { key value } notes { text } \
    now { at workers threads memoryUsed memoryLimit } totals { tasks tasksSucceeded tasksErred errors bytes workers \
    peakWorkers peakThreads computeSeconds transferSeconds clusterSeconds } \
    usage { workerSeconds memoryGibSeconds idleSeconds spillSeconds utilization retries spilledBytes \
    causes { cause seconds } costs { amount currency basis } } environment { python os osRelease machine }";

const COMPUTATION: &str = "id daskId cluster { id number name } state startedAt endedAt wallSeconds \
    totals { tasks states { state count } tasksSucceeded tasksErred tasksRetried computeSeconds transferSeconds bytes } \
    spans { id }";

const SPAN: &str = "id daskId cluster { id number name } parent { id } path tag enqueuedAt startedAt stoppedAt done \
    clientStartedAt clientStoppedAt totals(inclusive: false) { tasks tasksSucceeded tasksErred tasksRetried \
    computeSeconds transferSeconds bytes } collections";

const ERROR: &str = "id at cluster { id number name } computation { id } taskGroup { id name } group { id } key type \
    message traceback worker workerId origin retries";

const ERROR_GROUP: &str = "id type title origin firstSeenAt lastSeenAt status statusChangedAt \
    statusChangedBy { id name } regressedAt occurrenceCount clusterCount";

const EVENT: &str = "at topic cluster { id number name } workerId data";

const LOG_LINE: &str = "at cluster { id number name } source worker workerId level logger message repeated";

const TASK_GROUP: &str = "id name prefix cluster { id number name } span { id } firstSeenAt startedAt endedAt \
    states { state count } tasks tasksSucceeded tasksErred tasksBlamed tasksRetried durations { action seconds } bytes \
    types dependencies { id }";

const WORKER: &str = "id daskId cluster { id number name } name address host threads memoryLimit startedAt endedAt \
    end { at kind processingKeys processing lostResults lastMemory lastMemoryShare lastSeenAt } \
    environment { python os osRelease machine }";

const CLIENT: &str = "daskId connectedAt disconnectedAt environment { python os osRelease machine }";

const THREAD_CHANGE: &str = "at threads";

const FUNCTION: &str =
    "prefix computeSeconds transferSeconds tasks tasksErred bytes costs { amount currency basis }";

const USAGE_ROW: &str = "start end day user { id name } tag { key value } version clusters \
    usage { clusterSeconds computeSeconds transferSeconds workerSeconds memoryGibSeconds idleSeconds spillSeconds \
    utilization causes { cause seconds } tasks tasksErred retries errors bytes spilledBytes workers \
    costs { amount currency basis } } \
    function { prefix computeSeconds transferSeconds tasks tasksErred bytes }";

const USAGE_HOUR: &str = "start usage { clusterSeconds computeSeconds transferSeconds workerSeconds memoryGibSeconds \
    idleSeconds spillSeconds utilization causes { cause seconds } tasks tasksErred retries errors bytes spilledBytes \
    workers costs { amount currency basis } }";

const FLAG: &str = "kind text cluster { id number name } since until isActive value threshold unit worker { id name } \
    errorGroup { id } function packages isMuted";

const ALERT: &str = "identifier ruleIdentifier ruleName since until isActive value unit cluster { id number name } \
    user { id name } flag";

const ALERT_RULE: &str = "identifier name isEnabled condition { __typename ... on FlagsCondition { kinds } \
    ... on FailuresCondition { count withinSeconds of } ... on CostCondition { amount currency days of } \
    ... on IdleCondition { forSeconds } } users { id name } tags { key value } coolDownSeconds tellsEnd webhooks emails \
    createdAt changedAt changedBy { id name }";

const ALERT_DELIVERY: &str = "identifier ruleIdentifier ruleName channel event target state createdAt attempts \
    nextAttemptAt endedAt lastError";

const MEMBER: &str = "user { id name } role since until isOver";

const TOKEN: &str = "identifier label scopes user { id name } createdAt expiresAt lastUsedAt revokedAt";

const INVITATION: &str = "identifier name label role until invitedBy { id name } createdAt expiresAt revokedAt \
    acceptedAt acceptedBy { id name } isOpen";

const PERFORMANCE_REPORT: &str = "identifier name visibility size path createdAt user { id name }";

const AUDIT_ENTRY: &str = "at action outcome user { id } userName credential tokenIdentifier address requestId \
    target { kind id } detail";

const FINE_METRIC: &str = "context function activity unit value spanAttributable";

/// All lists that can be exported: those that have no end in the schema, and some that have.
pub(super) const LISTS: [List; 36] = [
    of_account("clusters", CLUSTER, FEW_ROWS),
    of_account("computations", COMPUTATION, SHORT_ROWS),
    of_account("spans", SPAN, FEW_ROWS),
    of_account("errors", ERROR, FEW_ROWS),
    of_account("errorGroups", ERROR_GROUP, LONG_ROWS),
    of_account("events", EVENT, LONG_ROWS),
    of_account("logs", LOG_LINE, LONG_ROWS),
    of_account("functions", FUNCTION, SHORT_ROWS),
    of_account("usageTable", USAGE_ROW, SHORT_ROWS),
    of_account("flags", FLAG, LONG_ROWS),
    of_account("alerts", ALERT, LONG_ROWS),
    of_account("alertRules", ALERT_RULE, LONG_ROWS),
    of_account("alertDeliveries", ALERT_DELIVERY, LONG_ROWS),
    of_account("performanceReports", PERFORMANCE_REPORT, SHORT_ROWS),
    of_account("members", MEMBER, SHORT_ROWS),
    of_account("invitations", INVITATION, SHORT_ROWS),
    of_account("tokens", TOKEN, SHORT_ROWS),
    of_account("auditLog", AUDIT_ENTRY, SHORT_ROWS),
    of(Of::Cluster, "computations", COMPUTATION, SHORT_ROWS),
    of(Of::Cluster, "taskGroups", TASK_GROUP, SHORT_ROWS),
    of(Of::Cluster, "spans", SPAN, FEW_ROWS),
    of(Of::Cluster, "errors", ERROR, FEW_ROWS),
    of(Of::Cluster, "events", EVENT, LONG_ROWS),
    of(Of::Cluster, "logs", LOG_LINE, LONG_ROWS),
    of(Of::Cluster, "flags", FLAG, LONG_ROWS),
    of(Of::Cluster, "workers", WORKER, SHORT_ROWS),
    of(Of::Cluster, "clients", CLIENT, SHORT_ROWS),
    of(Of::Cluster, "threadHistory", THREAD_CHANGE, SHORT_ROWS),
    of(Of::Cluster, "functions", FUNCTION, SHORT_ROWS),
    of(Of::Cluster, "usageHours", USAGE_HOUR, SHORT_ROWS),
    of(Of::Cluster, FINE_METRICS, FINE_METRIC, SHORT_ROWS),
    of(Of::Computation, "taskGroups", TASK_GROUP, SHORT_ROWS),
    of(Of::Computation, "errors", ERROR, FEW_ROWS),
    of(Of::ErrorGroup, "occurrences", ERROR, FEW_ROWS),
    of(Of::Span, "children", SPAN, FEW_ROWS),
    of(Of::Span, "taskGroups", TASK_GROUP, SHORT_ROWS),
];

const fn of_account(field: &'static str, columns: &'static str, page: i32) -> List {
    of(Of::Account, field, columns, page)
}

const fn of(of: Of, field: &'static str, columns: &'static str, page: i32) -> List {
    List { of, field, columns, page }
}
