//! `client_spans`: the spans as their clients report them, with the time that their block took. Rows are
//! written once and never changed.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ClusterId, SpanId},
    json_columns::CodeStacks,
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "client_spans")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub span_id: SpanId,
    pub started_at: Timestamp,
    pub stopped_at: Timestamp,
    pub code: CodeStacks,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
