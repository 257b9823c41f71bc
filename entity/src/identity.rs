//! `identities`: the names by which other issuers know users. The table has no account, since an
//! identity is looked up before the account is known.

use sea_orm::entity::prelude::*;

use crate::{Timestamp, ids::UserId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "identities")]
pub struct Model {
    /// The issuer: the `iss` of a JWT, or the address of an identity provider.
    #[sea_orm(primary_key, auto_increment = false)]
    pub issuer: String,
    /// The issuer's name for the user, which is unique only at this issuer.
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
