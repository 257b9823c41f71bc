//! `cluster_notes`: the notes that people write on clusters. A cluster without notes has no row.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ClusterId, UserId},
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "cluster_notes")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        /// The user who changed the notes last.
        pub user_id: UserId,
        pub changed_at: Timestamp,
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
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
