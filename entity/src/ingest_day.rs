//! `ingest_days`: the data that an account stored on one day (UTC), in bytes of JSON, by groups of equal
//! retention. Each row is written in the transaction that stores the data.
//!
//! Rows with a negative part are those of the account: sums of what was accepted, and what was deleted before
//! the end of its retention. The others have what single clusters stored.

use sea_orm::entity::prelude::*;

use crate::{AccountOwned, ids::AccountId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "ingest_days")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    /// The number of whole days since 1970-01-01 UTC.
    #[sea_orm(primary_key, auto_increment = false)]
    pub day: i64,
    /// The number of the cluster. From -4 to -1 for a partial sum of the day, and -5 for the deleted data.
    #[sea_orm(primary_key, auto_increment = false)]
    pub part: i64,
    /// Clusters, workers, clients, samples and usage.
    pub basic_bytes: i64,
    /// Task groups, computations, spans, fine metrics and the activity of functions.
    pub task_bytes: i64,
    /// Errors of Dask and of the computations.
    pub error_bytes: i64,
    pub code_bytes: i64,
    /// Profiles and performance reports.
    pub profile_bytes: i64,
    pub event_bytes: i64,
    pub log_bytes: i64,
    /// The number of new clusters.
    pub clusters: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
