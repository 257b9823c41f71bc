//! `error_occurrences`: one row per task that itself erred. Written once, never changed.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ClusterId, ComputationId, ErrorOccurrenceId, TaskGroupId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "error_occurrences")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: ErrorOccurrenceId,
    pub computation_id: Option<ComputationId>,
    pub task_group_id: Option<TaskGroupId>,
    pub occurred_at: Timestamp,
    pub key: String,
    pub exception_type: Option<String>,
    pub message: String,
    pub traceback: String,
    pub worker: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
