//! `thread_changes`: the changes of a cluster's number of threads. Rows are inserted once and never
//! updated.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    by_index::positional,
    ids::{AccountId, ClusterId, KeyTime},
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "thread_changes")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub changed_at: KeyTime,
        /// The number of threads of all workers from then on.
        pub threads: i64,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
