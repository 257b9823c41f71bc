//! `cost_rates`: the prices of an account's resources. A rate is valid from its first day until the next
//! rate begins.

use sea_orm::entity::prelude::*;

use crate::{AccountOwned, by_index::positional, ids::AccountId};

positional! {
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "cost_rates")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        /// The first day on which the rate is valid, in days since 1970-01-01 UTC.
        #[sea_orm(primary_key, auto_increment = false)]
        pub valid_from: i64,
        /// The ISO 4217 code.
        pub currency: String,
        pub per_thread_hour: f64,
        pub per_gib_hour: f64,
        pub per_worker_hour: f64,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
