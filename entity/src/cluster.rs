//! `clusters`: one row per scheduler process that ever reported, with the totals that lists show.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ClusterId, EnvironmentId, UserId},
    json_columns::{Counts, Names, Receipt},
};

/// The reporting status of the scheduler. Its activity while it reports is no column, because it follows
/// from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Status {
    /// The scheduler reports.
    #[sea_orm(string_value = "running")]
    Running,
    /// The scheduler reported that it closed.
    #[sea_orm(string_value = "closed")]
    Closed,
    /// The scheduler has not reported for so long that it is presumed lost. Its next report ends this
    /// status.
    #[sea_orm(string_value = "lost")]
    Lost,
}

/// The state that the account requests for the cluster. The response to the next report carries it to the
/// scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum DesiredState {
    /// The scheduler keeps running.
    #[sea_orm(string_value = "running")]
    Running,
    /// The scheduler closes.
    #[sea_orm(string_value = "stopped")]
    Stopped,
}

positional! {
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "clusters")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: ClusterId,
        /// Dask's `Scheduler-<uuid>`, new for every scheduler process; unique in the account.
        pub scheduler_id: String,
        /// The owner: first the user whose token the first report was sent with.
        pub user_id: Option<UserId>,
        pub name: Option<String>,
        pub address: Option<String>,
        pub dashboard_url: Option<String>,
        pub status: Status,
        pub desired_state: DesiredState,
        /// The sequence number of the newest stored report.
        pub sequence: i64,
        /// The highest sequence number up to which no report is missing; -1 if the first report is missing.
        pub complete_until: i64,
        /// The time of the newest report, by the scheduler's clock.
        pub reported_at: Timestamp,
        /// The reporter's current interval between reports, in seconds.
        pub interval_seconds: f64,
        /// The time of the first report, by the server's clock.
        pub first_seen_at: Timestamp,
        /// The time of the last report of any sequence number, by the server's clock.
        pub last_seen_at: Timestamp,
        pub started_at: Timestamp,
        pub closed_at: Option<Timestamp>,
        pub close_reason: Option<String>,
        pub idle_since: Option<Timestamp>,
        pub workers: i64,
        pub threads: i64,
        pub memory_limit_bytes: Option<i64>,
        pub memory_used_bytes: i64,
        pub total_tasks: i64,
        pub total_tasks_succeeded: i64,
        pub total_tasks_erred: i64,
        pub total_errors: i64,
        pub total_compute_seconds: f64,
        pub total_transfer_seconds: f64,
        pub total_thread_seconds: f64,
        pub total_bytes: i64,
        pub total_workers: i64,
        pub peak_workers: i64,
        pub peak_threads: i64,
        /// The largest memory that its workers used at a report. Null if earlier reports are from before this
        /// column.
        pub peak_memory_bytes: Option<i64>,
        pub environment_id: Option<EnvironmentId>,
        /// Items that the reporter discarded, by section of the report.
        pub dropped: Counts,
        /// The sent, withheld and dropped items by class of data, as of the newest report.
        pub receipt: Receipt,
        /// The time at which the cluster closed, in epoch milliseconds; the time of the last report if it
        /// is lost; `i64::MAX` while it has not ended. Lists need an order by a column that is never null.
        pub ended_key: i64,
        /// The time from its start until it closed, or until the newest report, in milliseconds.
        pub duration_ms: i64,
        /// The change number of the cluster's last change: the server's time in milliseconds, or one more
        /// than the previous change number if that is larger.
        pub changed_at: i64,
        /// The change number of the last change that brought rows much older than itself; 0 if there was
        /// none.
        pub late_at: i64,
        /// The time without work after which the scheduler closes by itself, in seconds. Null if it does
        /// not.
        pub idle_timeout_seconds: Option<f64>,
        /// The number of graphs that the scheduler was receiving. Null if Dask does not report it.
        pub graph_updates: Option<i64>,
        /// The reason why the reports cover only a part of the cluster's work. Null if they cover all of
        /// it.
        pub partial: Option<String>,
        /// Paths of report fields whose values were out of range and were clamped.
        pub cut: Names,
    }

    summary_fields {
        AccountId account_id,
        Id id,
        SchedulerId scheduler_id,
        UserId user_id,
        Name name,
        Status status,
        DesiredState desired_state,
        ReportedAt reported_at,
        LastSeenAt last_seen_at,
        StartedAt started_at,
        ClosedAt closed_at,
        IdleSince idle_since,
        TotalTasks total_tasks,
        TotalTasksSucceeded total_tasks_succeeded,
        TotalTasksErred total_tasks_erred,
        TotalErrors total_errors,
        TotalComputeSeconds total_compute_seconds,
        TotalTransferSeconds total_transfer_seconds,
        TotalThreadSeconds total_thread_seconds,
        TotalBytes total_bytes,
        TotalWorkers total_workers,
        PeakWorkers peak_workers,
        PeakThreads peak_threads,
        PeakMemoryBytes peak_memory_bytes,
        EndedKey ended_key,
        DurationMs duration_ms,
    }
    empty_fields {
        address: None,
        dashboard_url: None,
        sequence: 0,
        complete_until: 0,
        interval_seconds: 0.0,
        first_seen_at: Timestamp::from(ChronoDateTimeUtc::UNIX_EPOCH),
        close_reason: None,
        workers: 0,
        threads: 0,
        memory_limit_bytes: None,
        memory_used_bytes: 0,
        environment_id: None,
        dropped: Counts::default(),
        receipt: Receipt::default(),
        changed_at: 0,
        late_at: 0,
        idle_timeout_seconds: None,
        graph_updates: None,
        partial: None,
        cut: Names::default(),
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::Id);
}
