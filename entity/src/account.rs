//! `accounts`: the tenants. Not account-owned: it is what ownership refers to.

use sea_orm::entity::prelude::*;

use crate::{Timestamp, ids::AccountId, positional::positional};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "accounts")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: AccountId,
        /// Unique, in URLs and on the command line.
        pub slug: String,
        pub name: String,
        pub created_at: Timestamp,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
