//! `identities`: by which names other issuers know users. Not account-owned: whose it is, is known before any account.

use sea_orm::entity::prelude::*;

use crate::{Timestamp, ids::UserId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "identities")]
pub struct Model {
    /// Who says so: the `iss` of a JWT, or the address of an identity provider.
    #[sea_orm(primary_key, auto_increment = false)]
    pub issuer: String,
    /// The name it has for the user, which means nothing anywhere else.
    #[sea_orm(primary_key, auto_increment = false)]
    pub subject: String,
    pub user_id: UserId,
    pub created_at: Timestamp,
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
