//! `alerts`: the periods in which the condition of an alert rule held, one row per period and subject.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, AlertId, AlertRuleId},
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
        /// The subject: `account`, or `user:` or `cluster:` with an identifier. A flag's kind may follow
        /// the cluster.
        pub subject: String,
        /// The beginning of the period, by the server's clock.
        pub since: Timestamp,
        /// The end of the period, in epoch milliseconds; [`crate::cluster_flag::NOT_ENDED_KEY`] while
        /// the alert lasts.
        pub ended_key: i64,
        /// The value at the last evaluation.
        pub value: f64,
        /// The time of the last notification that the alert began. Null if there was none.
        pub told_at: Option<Timestamp>,
        /// True if receivers were notified of the alert's last beginning.
        pub told: bool,
        /// The change number of the last change. It grows with each change, and is the server's time in
        /// milliseconds wherever possible. Null if the last change is from before change numbers.
        pub changed_at: Option<i64>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
