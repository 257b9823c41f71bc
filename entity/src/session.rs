//! `sessions`: signed-in browsers. A session belongs to a user and to no account. Each request names its
//! account.

use sea_orm::entity::prelude::*;

use crate::{Timestamp, ids::UserId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sessions")]
pub struct Model {
    /// SHA-256 of the cookie's value. The value has 256 random bits, so it needs no slow hash.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Vec<u8>,
    pub user_id: UserId,
    pub created_at: Timestamp,
    /// The last recorded use. It may be some minutes old, since not every request writes it.
    pub used_at: Timestamp,
    /// The end of the session, regardless of its use.
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
