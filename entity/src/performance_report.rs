//! `performance_reports`: pages in which Dask shows the activity of a cluster, as users uploaded them.
//! Their contents are in `performance_report_pieces`.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, PerformanceReportId, UserId},
};

/// The members who may see a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Visibility {
    /// All members of the account.
    Public,
    /// The uploader, and members who may change the account.
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
        /// The uploader.
        pub user_id: UserId,
        /// The name of the uploaded file.
        pub name: String,
        pub visibility: Visibility,
        /// The size of the file, in bytes.
        pub size_bytes: i64,
        pub created_at: Timestamp,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
