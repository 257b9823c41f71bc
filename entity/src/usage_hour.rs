//! `usage_hours`: the usage of a cluster in one hour. Times are in microseconds (`_us`), so that sums
//! are exact. A value that Dask did not report is null.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, ClusterId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "usage_hours")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    /// The number of whole hours since 1970-01-01 UTC.
    #[sea_orm(primary_key, auto_increment = false)]
    pub hour: i64,
    /// The sequence of the report that these values come from.
    pub sequence: i64,
    /// True if the sums of its day include these values.
    pub folded: bool,
    pub thread_us: i64,
    /// The part of `thread_us` from before the reporter started, which was not observed.
    pub unobserved_us: i64,
    pub worker_us: i64,
    pub memory_gib_us: i64,
    pub compute_us: i64,
    /// The reported compute time, if `compute_us` is less because the cluster had no more thread time until
    /// the end of the hour.
    pub reported_compute_us: Option<i64>,
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
    /// True if impossible values were reported and clamped to possible ones.
    pub is_cut: bool,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
