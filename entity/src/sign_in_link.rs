//! `sign_in_links`: links with which users sign in once. A link belongs to a user and to no account. A row
//! is deleted when its link is used.

use sea_orm::entity::prelude::*;

use crate::{Timestamp, ids::UserId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sign_in_links")]
pub struct Model {
    /// SHA-256 of the link's secret. The secret has 256 random bits, so it needs no slow hash.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Vec<u8>,
    pub user_id: UserId,
    pub created_at: Timestamp,
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
