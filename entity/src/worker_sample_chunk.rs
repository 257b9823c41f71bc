//! `worker_sample_chunks`: the samples of a worker, ten minutes per row.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, ClusterId, KeyTime, WorkerId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "worker_sample_chunks")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub worker_id: WorkerId,
    /// The start of the ten minutes.
    #[sea_orm(primary_key, auto_increment = false)]
    pub started_at: KeyTime,
    /// The number of samples in `data`.
    pub samples: i32,
    /// The samples, packed by `galvo::domain::sample_chunk`.
    pub data: Vec<u8>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
