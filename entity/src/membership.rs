//! `memberships`: the users of each account, with their roles.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, UserId},
};

/// The role of a member, which determines the member's permissions in the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Role {
    /// May do everything, including giving the account away.
    #[sea_orm(string_value = "owner")]
    Owner,
    /// May do everything except manage owners.
    #[sea_orm(string_value = "admin")]
    Admin,
    /// May report, read, and change their own clusters, errors and tokens.
    #[sea_orm(string_value = "member")]
    Member,
    /// May read.
    #[sea_orm(string_value = "viewer")]
    Viewer,
    /// May read until the membership ends.
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
        /// The end of the membership. Set for guests, and `None` for all other roles.
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
    const CLUSTER_ID: Option<Column> = None;
}
