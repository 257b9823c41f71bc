//! `clusters`: one row per scheduler process that ever reported, with the totals a list needs.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ClusterId, EnvironmentId, UserId},
    list::{Counts, Receipt},
    positional::positional,
};

/// What the scheduler last said of itself, or that it says nothing any more. What it does while it reports is
/// no column: it follows from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Status {
    /// It reports.
    #[sea_orm(string_value = "running")]
    Running,
    /// It said goodbye.
    #[sea_orm(string_value = "closed")]
    Closed,
    /// It has not reported for so long that it is given up, until it does.
    #[sea_orm(string_value = "lost")]
    Lost,
}

/// What the account wants of the cluster; carried to the scheduler by the answer to its next report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum DesiredState {
    /// Carry on.
    #[sea_orm(string_value = "running")]
    Running,
    /// Close the scheduler.
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
        /// Whose token the first report came with.
        pub user_id: Option<UserId>,
        pub name: Option<String>,
        pub address: Option<String>,
        pub dashboard_url: Option<String>,
        pub status: Status,
        pub desired_state: DesiredState,
        /// The sequence of the newest report stored.
        pub sequence: i64,
        /// The highest sequence up to which no report is missing; -1 when even the first is.
        pub complete_until: i64,
        /// The scheduler's clock when it made that report.
        pub reported_at: Timestamp,
        /// Seconds the reporter was told to wait between reports.
        pub interval_seconds: f64,
        /// The server's clock at the first report.
        pub first_seen_at: Timestamp,
        /// The server's clock at the last report, whatever its sequence.
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
        pub environment_id: Option<EnvironmentId>,
        /// Items the reporter gave up, by section of the report.
        pub dropped: Counts,
        /// What became of its data on its way here, as of the newest report.
        pub receipt: Receipt,
        /// When it closed, or reported last if it is lost, and after all times while it has not ended: lists are
        /// ordered by what is never null.
        pub ended_key: i64,
        /// From its start until it closed, or until the newest report.
        pub duration_ms: i64,
        /// The place of its last change among all of them: the server's time in milliseconds, or one more than the place of
        /// the change before.
        pub changed_at: i64,
        /// The change that last brought something much older than itself; 0 if none did.
        pub late_at: i64,
        /// Seconds without work after which the scheduler closes by itself.
        pub idle_timeout_seconds: Option<f64>,
        /// Graphs the scheduler was taking in; none where Dask does not tell.
        pub graph_updates: Option<i64>,
    }

    lists show {
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
        EndedKey ended_key,
        DurationMs duration_ms,
    }
    and not {
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
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
