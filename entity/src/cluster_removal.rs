//! `cluster_removals`: clusters that are hidden or removed. The row outlives the cluster, so that a
//! scheduler that still reports does not add the cluster again.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ClusterId, UserId},
};

/// The stage of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum State {
    /// The cluster is hidden and can be restored.
    Quarantined,
    /// The cluster is hidden, and its rows are being deleted.
    Removing,
    /// The rows are deleted.
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "cluster_removals")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    /// Dask's identifier of the scheduler.
    pub scheduler_id: String,
    pub state: State,
    /// The time at which the removal reached this state.
    pub changed_at: Timestamp,
    /// The member who requested the removal. Null for an operator.
    pub user_id: Option<UserId>,
    /// The public half of the token whose reports are removed. Null if the cluster itself was named.
    pub token_identifier: Option<String>,
    /// The user who owned the cluster, whose reports of the scheduler are rejected. Null if nobody did, or if
    /// the cluster was removed before owners were recorded: then all reports are.
    pub owner_id: Option<UserId>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    // The table records which clusters are hidden, so it is not filtered by them.
    const CLUSTER_ID: Option<Column> = None;
}
