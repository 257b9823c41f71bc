//! `idle_policies`: the accounts' policies for idle clusters. An account without a policy has no row.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, UserId},
    json_columns::TagPatterns,
};

/// The action for a cluster that has had no work for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Mode {
    /// No action: only the idle time is shown.
    #[sea_orm(string_value = "observe")]
    Observe,
    /// The cluster is flagged for its user.
    #[sea_orm(string_value = "warn")]
    Warn,
    /// The cluster is flagged and then stopped.
    #[sea_orm(string_value = "stop")]
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "idle_policies")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    pub mode: Mode,
    /// The idle timeout, in seconds. `None` for no timeout.
    pub timeout_seconds: Option<i64>,
    /// The time between the flag and the timeout, in seconds.
    pub warn_before_seconds: i64,
    /// The tags that exempt a cluster from the policy.
    pub exempt_tags: TagPatterns,
    pub changed_at: Timestamp,
    /// The user who set the policy.
    pub user_id: UserId,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
