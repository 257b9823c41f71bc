//! `spans`: one row per `Span` object of a scheduler. Values are the span's own, without those of its
//! descendants.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ClusterId, SpanId},
    json_columns::{CodeStacks, Names},
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "spans")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: SpanId,
        /// The sequence of the report that these values come from.
        pub sequence: i64,
        /// Its number in the cluster, from 1. `None` if the reporter did not count.
        pub number: Option<i64>,
        pub parent_id: Option<SpanId>,
        /// The tags from the outermost span to its own.
        pub path: Names,
        pub enqueued_at: Timestamp,
        pub started_at: Option<Timestamp>,
        pub stopped_at: Option<Timestamp>,
        pub done: bool,
        pub collections: Names,
        pub code: CodeStacks,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
