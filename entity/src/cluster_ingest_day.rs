//! `cluster_ingest_days`: the data that a cluster stored on one day (UTC), in bytes of JSON, by groups of
//! equal retention. It is the cluster's part of `ingest_days`, and written in the same transaction.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, ClusterId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "cluster_ingest_days")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    /// The number of whole days since 1970-01-01 UTC.
    #[sea_orm(primary_key, auto_increment = false)]
    pub day: i64,
    /// The cluster itself, its workers, clients, samples and usage.
    pub basic_bytes: i64,
    /// Task groups, computations, spans, fine metrics and the activity of functions.
    pub task_bytes: i64,
    /// Errors of Dask and of the computations.
    pub error_bytes: i64,
    pub code_bytes: i64,
    pub profile_bytes: i64,
    pub event_bytes: i64,
    pub log_bytes: i64,
    /// 1 on the day on which the cluster was new.
    pub clusters: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
