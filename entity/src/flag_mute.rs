//! `flag_mutes`: what of all that is noticed an account does not want to be told.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    cluster_flag::Kind,
    ids::{AccountId, UserId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "flag_mutes")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub kind: Kind,
    /// The key of a tag that clusters have to have; empty for all clusters.
    #[sea_orm(primary_key, auto_increment = false)]
    pub tag_key: String,
    /// Whether the tag may have any value.
    #[sea_orm(primary_key, auto_increment = false)]
    pub any_value: bool,
    /// The value it has to have otherwise.
    #[sea_orm(primary_key, auto_increment = false)]
    pub tag_value: String,
    /// Until when, in epoch milliseconds; [`crate::cluster_flag::LASTS`] for ever.
    pub until_key: i64,
    pub muted_at: Timestamp,
    /// Who said so.
    pub muted_by: UserId,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
