//! `function_usage_days`: the resources that the tasks of one function used in one day (UTC), by user: the
//! sum of the hours. Times are in microseconds (`_us`).

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, UserId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "function_usage_days")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub day: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: UserId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub prefix: String,
    pub compute_us: i64,
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
    const CLUSTER_ID: Option<Column> = None;
}
