//! `cluster_tags`: the tags that people put on clusters. They are not encrypted, because clusters are
//! filtered by them.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    by_index::positional,
    ids::{AccountId, ClusterId},
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "cluster_tags")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub key: String,
        /// The value. Empty for a tag without one.
        pub value: String,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
