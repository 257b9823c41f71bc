//! `cluster_controls`: what people and the idle policy said of whether a cluster is to go on. One of which nobody said
//! anything has no row. It lies in the open, as the reason a scheduler gives when it closes does.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ClusterId, UserId},
};

/// Who wants a cluster to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum StopOrigin {
    /// A member of the account.
    #[sea_orm(string_value = "user")]
    User,
    /// Whoever has the command line of the server.
    #[sea_orm(string_value = "operator")]
    Operator,
    /// The account's idle policy.
    #[sea_orm(string_value = "idle_policy")]
    IdlePolicy,
}

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "cluster_controls")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    /// When somebody said that it is not to be stopped for being idle.
    pub kept_at: Option<Timestamp>,
    /// Until when.
    pub kept_until: Option<Timestamp>,
    /// Who said so.
    pub kept_by: Option<UserId>,
    /// When the idle policy marked it.
    pub warned_at: Option<Timestamp>,
    /// Since when it had been idle then, by the scheduler's clock: another stretch of idleness is not marked by it.
    pub warned_idle_since: Option<Timestamp>,
    /// When it was said that it is to stop.
    pub stop_at: Option<Timestamp>,
    /// By whom.
    pub stop_origin: Option<StopOrigin>,
    /// By which member.
    pub stop_user_id: Option<UserId>,
    /// Why, in words.
    pub stop_reason: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
