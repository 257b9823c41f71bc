//! `code_snippets`: text of code that called Dask, once per account however many clusters ran it.

use sea_orm::entity::prelude::*;

use crate::{AccountOwned, Timestamp, ids::AccountId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "code_snippets")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    /// SHA-256 of the text.
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    /// When a report last brought or named it, rounded down to the day.
    pub last_used_at: Timestamp,
    /// Which key the text is encrypted with.
    pub key_id: i64,
    /// The text, encrypted.
    pub sealed: Vec<u8>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
