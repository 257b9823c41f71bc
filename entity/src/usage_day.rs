//! `usage_days`: what a user's clusters used in one day (UTC): the sum of their hours.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, UserId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "usage_days")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    /// Whole days since 1970-01-01 UTC.
    #[sea_orm(primary_key, auto_increment = false)]
    pub day: i64,
    /// The nil UUID for clusters whose user is gone.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: UserId,
    /// Clusters that were there.
    pub clusters: i64,
    pub thread_us: i64,
    pub worker_us: i64,
    pub memory_gib_us: i64,
    pub compute_us: i64,
    pub transfer_us: i64,
    pub cpu_us: Option<i64>,
    pub noncpu_us: Option<i64>,
    pub serialize_us: Option<i64>,
    pub spill_us: Option<i64>,
    pub overhead_us: Option<i64>,
    pub failed_us: Option<i64>,
    pub idle_us: Option<i64>,
    pub tasks: i64,
    pub tasks_erred: i64,
    pub retries: i64,
    pub errors: i64,
    pub bytes: i64,
    pub spilled_bytes: i64,
    pub workers: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
