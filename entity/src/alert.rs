//! `alerts`: what accounts wanted to be told of, one row each time for as long as it lasted.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, AlertId, AlertRuleId},
    positional::positional,
};

positional! {
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "alerts")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: AlertId,
        pub rule_id: AlertRuleId,
        /// What it is about: `account`, `user:` or `cluster:` with an identifier, and perhaps what was noticed of it.
        pub subject: String,
        /// Since when it was so, by the server's clock.
        pub since: Timestamp,
        /// Until when it was so, in epoch milliseconds; [`crate::cluster_flag::LASTS`] while it is.
        pub ended_key: i64,
        /// The value when it was last looked at.
        pub value: f64,
        /// When it was last told that it is so.
        pub told_at: Option<Timestamp>,
        /// Whether that was told since it last began.
        pub told: bool,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
