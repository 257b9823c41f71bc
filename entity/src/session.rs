//! `sessions`: the browsers people are signed in with. A session is of a user and of no account; which account a request
//! is about is told by the request.

use sea_orm::entity::prelude::*;

use crate::{Timestamp, ids::UserId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sessions")]
pub struct Model {
    /// SHA-256 of what the cookie holds. That has 256 random bits, so it needs no slow hash.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Vec<u8>,
    pub user_id: UserId,
    pub created_at: Timestamp,
    /// When it was last used, some minutes ago at the most: not every request writes.
    pub used_at: Timestamp,
    /// When it ends, however much it is used.
    pub expires_at: Timestamp,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    #[sea_orm(belongs_to = "crate::user::Entity", from = "Column::UserId", to = "crate::user::Column::Id")]
    User,
}

impl Related<crate::user::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
