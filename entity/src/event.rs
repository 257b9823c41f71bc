//! `events`: the events that Dask or a user logged. Rows are written once and never changed.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    by_index::positional,
    ids::{AccountId, ClusterId, EventId, KeyTime, WorkerId},
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
        /// The content of the event, as JSON.
        pub data: String,
        /// The change number of the change that added the row, see `clusters.changed_at`.
        pub arrived_at: i64,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
