//! `code_snippets`: the text of code that called Dask, stored once per account, whatever the number of
//! clusters that ran it.

use sea_orm::entity::prelude::*;

use crate::{AccountOwned, Timestamp, by_index::positional, ids::AccountId};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "code_snippets")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        /// SHA-256 of the text.
        #[sea_orm(primary_key, auto_increment = false)]
        pub hash: String,
        /// The last time that a report sent or named the text, rounded down to the day.
        pub last_used_at: Timestamp,
        /// The identifier of the key that `sealed` is encrypted with.
        pub key_id: i64,
        /// The text, encrypted.
        pub sealed: Vec<u8>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
