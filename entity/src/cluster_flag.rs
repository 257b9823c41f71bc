//! `cluster_flags`: what was noticed of clusters, one row each time for as long as it lasted.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ClusterId, ErrorGroupId, FlagId, WorkerId},
    positional::positional,
};

/// What can be noticed of a cluster.
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
pub enum Kind {
    /// All workers together use much of their memory.
    #[sea_orm(string_value = "memory_pressure")]
    MemoryPressure,
    /// One worker uses much of its memory.
    #[sea_orm(string_value = "worker_memory_pressure")]
    WorkerMemoryPressure,
    /// The disk of a worker is nearly full.
    #[sea_orm(string_value = "disk_nearly_full")]
    DiskNearlyFull,
    /// Results lie on disk for want of memory.
    #[sea_orm(string_value = "spilling")]
    Spilling,
    /// Some workers have nothing to do while tasks wait for others.
    #[sea_orm(string_value = "unbalanced_workers")]
    UnbalancedWorkers,
    /// Threads wait for Python's lock.
    #[sea_orm(string_value = "gil_contention")]
    GilContention,
    /// An event loop does not get to its work.
    #[sea_orm(string_value = "event_loop_blocked")]
    EventLoopBlocked,
    /// Many tasks erred.
    #[sea_orm(string_value = "many_failures")]
    ManyFailures,
    /// The scheduler holds very many tasks.
    #[sea_orm(string_value = "oversized_graph")]
    OversizedGraph,
    /// Processes run on different versions of a package.
    #[sea_orm(string_value = "version_mismatch")]
    VersionMismatch,
    /// There has been nothing to do for long.
    #[sea_orm(string_value = "idle")]
    Idle,
}

/// The `ended_key` of what lasts.
pub const LASTS: i64 = i64::MAX;

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
        pub kind: Kind,
        /// Since when it is so, by the scheduler's clock.
        pub since: Timestamp,
        /// Until when it was so, in epoch milliseconds; [`LASTS`] while it is.
        pub ended_key: i64,
        /// From what value on it was flagged.
        pub threshold: f64,
        /// The worst value while it was so.
        pub value: f64,
        /// The worker that was worst.
        pub worker_id: Option<WorkerId>,
        /// The errors that were most.
        pub error_group_id: Option<ErrorGroupId>,
        /// The function, operation or package it is about.
        pub name: Option<String>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
