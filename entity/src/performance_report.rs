//! `performance_reports`: pages that Dask drew of what a cluster did, as people stored them. Their contents are in
//! `performance_report_pieces`.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, PerformanceReportId, UserId},
    positional::positional,
};

/// Who may see a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Visibility {
    /// All members of the account.
    Public,
    /// Whoever stored it, and those who may change the account.
    Private,
}

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "performance_reports")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: PerformanceReportId,
        /// Who stored it.
        pub user_id: UserId,
        /// The name of the file it was.
        pub name: String,
        pub visibility: Visibility,
        /// How large the file was.
        pub size_bytes: i64,
        pub created_at: Timestamp,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
