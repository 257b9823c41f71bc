//! `users`: the people and robots that sign in. A user may be a member of several accounts.

use sea_orm::entity::prelude::*;

use crate::{Timestamp, by_index::positional, ids::UserId};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "users")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: UserId,
        /// The name, unique over all accounts.
        pub name: String,
        pub created_at: Timestamp,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
