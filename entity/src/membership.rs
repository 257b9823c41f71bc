//! `memberships`: which user belongs to which account, as what.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, UserId},
    positional::positional,
};

/// What a member may do in the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Role {
    /// Everything, including giving the account away.
    #[sea_orm(string_value = "owner")]
    Owner,
    /// Everything but owners.
    #[sea_orm(string_value = "admin")]
    Admin,
    /// Reports and reads.
    #[sea_orm(string_value = "member")]
    Member,
    /// Reads.
    #[sea_orm(string_value = "viewer")]
    Viewer,
    /// Reads until the membership ends.
    #[sea_orm(string_value = "guest")]
    Guest,
}

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "memberships")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub user_id: UserId,
        pub role: Role,
        pub created_at: Timestamp,
        /// When it ends: for guests alone, and always for them.
        pub ends_at: Option<Timestamp>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    #[sea_orm(
        belongs_to = "crate::account::Entity",
        from = "Column::AccountId",
        to = "crate::account::Column::Id"
    )]
    Account,
    #[sea_orm(belongs_to = "crate::user::Entity", from = "Column::UserId", to = "crate::user::Column::Id")]
    User,
}

impl Related<crate::account::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Account.def()
    }
}

impl Related<crate::user::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
