//! `fine_metric_totals`: the sums of the fine performance metrics of a closed cluster, packed into one row.
//! A cluster that has not closed has no row, and neither has one with more than 5,000 spans.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, ClusterId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "fine_metric_totals")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    /// The sums, packed by `galvo::domain::fine_metric`.
    pub sums: Vec<u8>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
