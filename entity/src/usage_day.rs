//! `usage_days`: the usage of a user's clusters on one day (UTC), as the sum of their hours.

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
    /// The number of whole days since 1970-01-01 UTC.
    #[sea_orm(primary_key, auto_increment = false)]
    pub day: i64,
    /// The user. The nil UUID for clusters whose user was deleted.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: UserId,
    /// The number of clusters in use.
    pub clusters: i64,
    pub thread_us: i64,
    /// The part of `thread_us` from before the reporter started, which was not observed.
    pub unobserved_us: i64,
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
    /// True if a value of one of the hours was clamped, so that the sums are smaller than what was
    /// reported.
    pub is_cut: bool,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
