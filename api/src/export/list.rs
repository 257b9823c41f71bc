//! Which lists there are, and which of the schema's fields are their columns.

/// Whose lists they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// The viewer's account.
    Account,
    /// One cluster.
    Cluster,
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

const COMPUTATION: &str =
    "id daskId cluster { id number name } state startedAt endedAt wallSeconds spans { id }";

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

const AUDIT_ENTRY: &str = "at action outcome user { id } userName credential tokenIdentifier address requestId \
    target { kind id } detail";

const FINE_METRIC: &str = "context function activity unit value spanAttributable";

/// All lists that can be exported.
pub(super) const LISTS: [List; 22] = [
    of_account("clusters", CLUSTER, FEW_ROWS),
    of_account("computations", COMPUTATION, SHORT_ROWS),
    of_account("spans", SPAN, FEW_ROWS),
    of_account("errors", ERROR, FEW_ROWS),
    of_account("errorGroups", ERROR_GROUP, LONG_ROWS),
    of_account("events", EVENT, LONG_ROWS),
    of_account("logs", LOG_LINE, LONG_ROWS),
    of_account("functions", FUNCTION, SHORT_ROWS),
    of_account("usageTable", USAGE_ROW, SHORT_ROWS),
    of_account("auditLog", AUDIT_ENTRY, SHORT_ROWS),
    of_cluster("computations", COMPUTATION, SHORT_ROWS),
    of_cluster("taskGroups", TASK_GROUP, SHORT_ROWS),
    of_cluster("spans", SPAN, FEW_ROWS),
    of_cluster("errors", ERROR, FEW_ROWS),
    of_cluster("events", EVENT, LONG_ROWS),
    of_cluster("logs", LOG_LINE, LONG_ROWS),
    of_cluster("workers", WORKER, SHORT_ROWS),
    of_cluster("clients", CLIENT, SHORT_ROWS),
    of_cluster("threadHistory", THREAD_CHANGE, SHORT_ROWS),
    of_cluster("functions", FUNCTION, SHORT_ROWS),
    of_cluster("usageHours", USAGE_HOUR, SHORT_ROWS),
    of_cluster(FINE_METRICS, FINE_METRIC, SHORT_ROWS),
];

const fn of_account(field: &'static str, columns: &'static str, page: i32) -> List {
    List { of: Of::Account, field, columns, page }
}

const fn of_cluster(field: &'static str, columns: &'static str, page: i32) -> List {
    List { of: Of::Cluster, field, columns, page }
}
