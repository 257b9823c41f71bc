//! `environments`: the software that processes run on, one row per distinct content. Rows are written once
//! and never changed.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    by_index::positional,
    ids::{AccountId, ClusterId, EnvironmentId},
    json_columns::Packages,
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "environments")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: EnvironmentId,
        pub python: Option<String>,
        pub executable: Option<String>,
        pub os: Option<String>,
        pub os_release: Option<String>,
        pub machine: Option<String>,
        pub packages: Packages,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
