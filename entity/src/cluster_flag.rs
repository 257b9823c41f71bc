//! `cluster_flags`: the flags that rules raise on clusters, one row per period in which the condition held.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ClusterId, ErrorGroupId, FlagId, WorkerId},
};

/// The kind of a flag.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    EnumIter,
    DeriveActiveEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "Text")]
#[serde(rename_all = "snake_case")]
pub enum ClusterFlagKind {
    /// All workers together use a large part of their memory.
    #[sea_orm(string_value = "memory_pressure")]
    MemoryPressure,
    /// One worker uses a large part of its memory.
    #[sea_orm(string_value = "worker_memory_pressure")]
    WorkerMemoryPressure,
    /// The disk of a worker is nearly full.
    #[sea_orm(string_value = "disk_nearly_full")]
    DiskNearlyFull,
    /// Results were spilled to disk because memory is short.
    #[sea_orm(string_value = "spilling")]
    Spilling,
    /// Some workers are idle while tasks wait for others.
    #[sea_orm(string_value = "unbalanced_workers")]
    UnbalancedWorkers,
    /// Threads wait for Python's global interpreter lock.
    #[sea_orm(string_value = "gil_contention")]
    GilContention,
    /// An event loop is blocked.
    #[sea_orm(string_value = "event_loop_blocked")]
    EventLoopBlocked,
    /// Many tasks erred.
    #[sea_orm(string_value = "many_failures")]
    ManyFailures,
    /// The scheduler holds a very large number of tasks.
    #[sea_orm(string_value = "oversized_graph")]
    OversizedGraph,
    /// Processes run on different versions of a package.
    #[sea_orm(string_value = "version_mismatch")]
    VersionMismatch,
    /// The cluster has had no work for a long time.
    #[sea_orm(string_value = "idle")]
    Idle,
}

/// The `ended_key` of a flag that has not ended.
pub const NOT_ENDED_KEY: i64 = i64::MAX;

positional! {
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "cluster_flags")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: FlagId,
        pub kind: ClusterFlagKind,
        /// The beginning of the period, by the scheduler's clock.
        pub since: Timestamp,
        /// The end of the period, in epoch milliseconds; [`NOT_ENDED_KEY`] while the condition holds.
        pub ended_key: i64,
        /// The value from which on the flag is raised.
        pub threshold: f64,
        /// The worst value during the period.
        pub value: f64,
        /// The worker with the worst value, for kinds that concern one worker.
        pub worker_id: Option<WorkerId>,
        /// The group with the most errors, for kinds that concern errors.
        pub error_group_id: Option<ErrorGroupId>,
        /// The function, operation or package that the flag concerns.
        pub name: Option<String>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
