//! `performance_report_pieces`: the contents of performance reports, some hundred kilobytes per row.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    ids::{AccountId, PerformanceReportId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "performance_report_pieces")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub report_id: PerformanceReportId,
    /// The index of the piece, counted from 0.
    #[sea_orm(primary_key, auto_increment = false)]
    pub position: i64,
    /// The key that encrypts the piece.
    pub key_id: i64,
    /// A piece of the file, encrypted.
    pub sealed: Vec<u8>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
