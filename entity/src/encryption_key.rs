//! `encryption_keys`: the keys that ever encrypted a text, so that a missing key is detected. The rows
//! belong to no account.

use sea_orm::entity::prelude::*;

use crate::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "encryption_keys")]
pub struct Model {
    /// The identifier of the key, derived from the key itself.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    pub first_used_at: Timestamp,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
