//! `function_activity_chunks`: the compute time of a cluster's functions, ten minutes per row.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, ClusterId, KeyTime},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "function_activity_chunks")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    /// The beginning of the ten minutes.
    #[sea_orm(primary_key, auto_increment = false)]
    pub started_at: KeyTime,
    /// The number of functions in `data`, where all without a name of their own count as one.
    pub functions: i32,
    /// The compute time by function and interval, packed by `galvo::domain::function_activity`.
    pub data: Vec<u8>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
