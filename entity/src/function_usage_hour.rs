//! `function_usage_hours`: the resources that the tasks of one function used on a cluster in one hour.
//! Times are in microseconds (`_us`).

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, ClusterId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "function_usage_hours")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub hour: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub prefix: String,
    /// The sequence number of the report that these values come from.
    pub sequence: i64,
    pub compute_us: i64,
    /// The reported compute time, if `compute_us` is less because not all of the hour's compute time counts.
    pub reported_compute_us: Option<i64>,
    pub transfer_us: i64,
    pub tasks: i64,
    pub tasks_erred: i64,
    pub bytes: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
