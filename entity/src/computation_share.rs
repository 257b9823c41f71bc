//! `computation_shares`: the share of one computation in a task group that several computations use, as
//! last reported. A group that only one computation uses has no row: all of its tasks belong to that
//! computation.
//!
//! There is no foreign key to either side, because reports may arrive out of order.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, ClusterId, ComputationId, TaskGroupId},
};

#[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
#[sea_orm(table_name = "computation_shares")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub computation_id: ComputationId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub task_group_id: TaskGroupId,
    /// The sequence number of the report that these values come from.
    pub sequence: i64,
    /// True if the values include tasks of other computations, which the reporter could not separate.
    pub joint: bool,
    pub tasks: i64,
    pub tasks_succeeded: i64,
    pub tasks_erred: i64,
    pub tasks_retried: i64,
    pub released: i64,
    pub waiting: i64,
    pub no_worker: i64,
    pub queued: i64,
    pub processing: i64,
    pub memory: i64,
    pub erred: i64,
    pub forgotten: i64,
    pub compute_seconds: f64,
    pub transfer_seconds: f64,
    pub bytes: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
