//! `default_accounts`: the account that a user's requests use if they name none. The table is not
//! account-owned, because the row belongs to the user.

use sea_orm::entity::prelude::*;

use crate::ids::{AccountId, UserId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "default_accounts")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: UserId,
    pub account_id: AccountId,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
