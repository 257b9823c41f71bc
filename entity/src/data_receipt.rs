//! `data_receipts`: what became of each class of a cluster's data on its way here.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    data_policy::DataClass,
    ids::{AccountId, ClusterId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "data_receipts")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub data_class: DataClass,
    /// Items the reporter sent.
    pub sent: i64,
    /// Their size as JSON.
    pub bytes: i64,
    /// Items the reporter kept back.
    pub withheld: i64,
    /// Items that arrived and were not stored, because the account refuses them.
    pub dropped: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
