//! `profiles`: windows of the statistical profile. Rows are inserted once and never updated.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ClusterId, KeyTime, ProfileId},
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "profiles")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub started_at: KeyTime,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: ProfileId,
        pub stopped_at: Timestamp,
        /// The number of workers that were sampled.
        pub workers: i64,
        pub samples: i64,
        /// The key that encrypts the profile.
        pub key_id: i64,
        /// The frames and nodes, packed by `galvo::domain::profile` and encrypted.
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
