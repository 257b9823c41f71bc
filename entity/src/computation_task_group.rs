//! `computation_task_groups`: the task groups that a computation uses. Several computations can use one
//! task group, because Dask keeps one object per name while any of its tasks exists.
//!
//! There is no foreign key to either side, because reports may arrive out of order, and a link may arrive
//! first.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, ClusterId, ComputationId, TaskGroupId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "computation_task_groups")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub computation_id: ComputationId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub task_group_id: TaskGroupId,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
