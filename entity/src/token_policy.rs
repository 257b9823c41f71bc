//! `token_policies`: the accounts' policies for scheduler tokens. A policy is read with each token,
//! before the account is known, and therefore has a table apart from `accounts`. An account without a
//! policy has no row.

use sea_orm::entity::prelude::*;

use crate::{AccountOwned, ids::AccountId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "token_policies")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    /// True if the account refuses schedulers whose token has more scopes than reporting.
    pub refuses_broad_tokens: bool,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
