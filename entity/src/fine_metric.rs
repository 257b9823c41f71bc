//! `fine_metrics`: all fine performance metrics of a span, packed into one row.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    by_index::positional,
    ids::{AccountId, ClusterId, SpanId},
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "fine_metrics")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        /// The span. The nil UUID for metrics that Dask attributes to no span.
        #[sea_orm(primary_key, auto_increment = false)]
        pub span_id: SpanId,
        /// The sequence number of the report that these values come from.
        pub sequence: i64,
        /// The cells, packed by `galvo::domain::fine_metric`.
        pub cells: Vec<u8>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
