//! `idle_policies`: what an account wants of clusters that have nothing to do. One that said nothing has no row.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, UserId},
    list::TagPatterns,
};

/// What is to become of a cluster that has had no work for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Mode {
    /// Nothing: how long it is idle shows.
    #[sea_orm(string_value = "observe")]
    Observe,
    /// It is marked, for its user to see.
    #[sea_orm(string_value = "warn")]
    Warn,
    /// It is marked, and then stopped.
    #[sea_orm(string_value = "stop")]
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "idle_policies")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    pub mode: Mode,
    /// How long without work is too long; none for never.
    pub timeout_seconds: Option<i64>,
    /// How long before that it is marked.
    pub warn_before_seconds: i64,
    /// Clusters with one of these tags are left alone.
    pub exempt_tags: TagPatterns,
    pub changed_at: Timestamp,
    /// Who said so.
    pub user_id: UserId,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
