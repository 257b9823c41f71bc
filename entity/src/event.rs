//! `events`: what Dask or a user logged as an event. Written once, never changed.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, ClusterId, EventId, KeyTime, WorkerId},
    positional::positional,
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "events")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub occurred_at: KeyTime,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: EventId,
        pub topic: String,
        pub worker_id: Option<WorkerId>,
        /// What it says, as JSON.
        pub data: String,
        /// The change of the cluster that brought it, as `clusters.changed_at` has it.
        pub arrived_at: i64,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
