//! `accounts`: the tenants. The table is not account-owned, because ownership refers to it.

use sea_orm::entity::prelude::*;

use crate::{Timestamp, by_index::positional, ids::AccountId};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "accounts")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: AccountId,
        /// The account's short name in URLs and on the command line. Unique.
        pub slug: String,
        pub name: String,
        pub created_at: Timestamp,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
