//! `workers`: one row per worker process, from its start to its end.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ClusterId, EnvironmentId, WorkerId},
    json_columns::{Counts, Names},
};

/// The way in which a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum End {
    /// The cluster no longer needed it and retired it.
    #[sea_orm(string_value = "retired")]
    Retired,
    /// It closed in an orderly way.
    #[sea_orm(string_value = "closed")]
    Closed,
    /// Its nanny killed it because of its memory use.
    #[sea_orm(string_value = "memory")]
    Memory,
    /// It disappeared without a message.
    #[sea_orm(string_value = "lost")]
    Lost,
    /// It left, and the reason is unknown.
    #[sea_orm(string_value = "unknown")]
    Unknown,
}

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "workers")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: WorkerId,
        /// The sequence of the report that these values come from.
        pub sequence: i64,
        /// Its number in the cluster, from 1. `None` if the reporter did not count.
        pub number: Option<i64>,
        pub name: String,
        pub address: String,
        pub host: Option<String>,
        pub environment_id: Option<EnvironmentId>,
        pub threads: i64,
        pub memory_limit_bytes: Option<i64>,
        pub started_at: Timestamp,
        pub ended_at: Option<Timestamp>,
        /// The way in which it ended. `None` until then.
        pub end_kind: Option<End>,
        /// The keys of the tasks it was processing when it ended. The list is incomplete if there were
        /// many.
        pub processing_keys: Names,
        /// The number of tasks it was processing when it ended.
        pub processing: i64,
        /// These tasks by function, at most the 20 most frequent. `None` until it ended.
        pub processing_functions: Option<Counts>,
        /// The number of results that existed only on this worker when it ended.
        pub lost_results: i64,
        pub last_memory_bytes: Option<i64>,
        /// The largest memory of its process that the reporter saw. `None` until it ended.
        pub peak_memory_bytes: Option<i64>,
        /// The time at which the scheduler last heard from it.
        pub last_seen_at: Option<Timestamp>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
