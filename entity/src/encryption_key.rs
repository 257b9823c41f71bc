//! `encryption_keys`: the keys that ever encrypted something, so that a missing one is noticed. A row of no account.

use sea_orm::entity::prelude::*;

use crate::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "encryption_keys")]
pub struct Model {
    /// The identifier of the key, made of the key itself.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    pub first_used_at: Timestamp,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
