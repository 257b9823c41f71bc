//! `workers`: one row per worker process, from when it joined to how it ended.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ClusterId, EnvironmentId, WorkerId},
    list::Names,
    positional::positional,
};

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum End {
    /// The cluster had no more need of it.
    #[sea_orm(string_value = "retired")]
    Retired,
    /// It closed in good order.
    #[sea_orm(string_value = "closed")]
    Closed,
    /// Its nanny killed it over its memory.
    #[sea_orm(string_value = "memory")]
    Memory,
    /// It vanished without a word.
    #[sea_orm(string_value = "lost")]
    Lost,
    /// It left, and nothing tells how.
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
        /// The sequence of the report these values come from.
        pub sequence: i64,
        pub name: String,
        pub address: String,
        pub host: Option<String>,
        pub environment_id: Option<EnvironmentId>,
        pub threads: i64,
        pub memory_limit_bytes: Option<i64>,
        pub started_at: Timestamp,
        pub ended_at: Option<Timestamp>,
        /// How it ended, once it did.
        pub end_kind: Option<End>,
        /// Keys of tasks it was processing when it ended; not all if there were many.
        pub processing_keys: Names,
        /// How many those were.
        pub processing: i64,
        /// Results that existed only there when it ended.
        pub lost_results: i64,
        pub last_memory_bytes: Option<i64>,
        /// When the scheduler last heard of it.
        pub last_seen_at: Option<Timestamp>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
