//! `alert_deliveries`: the outbox of alert messages. A row is written in the transaction of the alerts that
//! it reports, and the message is sent later.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, AlertDeliveryId, AlertRuleId},
};

/// The channel of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Channel {
    /// An HTTP request.
    #[sea_orm(string_value = "webhook")]
    Webhook,
    /// An e-mail.
    #[sea_orm(string_value = "email")]
    Email,
}

/// The event that a message reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Event {
    /// Alerts began or ended.
    #[sea_orm(string_value = "alerts")]
    Alerts,
    /// No event: a user tests the receivers.
    #[sea_orm(string_value = "test")]
    Test,
}

/// The delivery state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// The message is to be sent, for the first time or again.
    #[sea_orm(string_value = "pending")]
    Pending,
    /// The receiver accepted the message.
    #[sea_orm(string_value = "delivered")]
    Delivered,
    /// All attempts failed, and the message is not sent again.
    #[sea_orm(string_value = "failed")]
    Failed,
}

/// The `due_key` of a message that is not sent again.
pub const NEVER_DUE_KEY: i64 = i64::MAX;

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "alert_deliveries")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: AlertDeliveryId,
        pub rule_id: AlertRuleId,
        pub channel: Channel,
        pub event: Event,
        /// The receiver, in the form that every member may read.
        pub target: String,
        pub state: State,
        pub created_at: Timestamp,
        /// The time of the next attempt, in epoch milliseconds; [`NEVER_DUE_KEY`] if there is none.
        pub due_key: i64,
        /// The number of attempts so far.
        pub attempts: i64,
        /// The time at which the message was delivered or given up. Null until then.
        pub ended_at: Option<Timestamp>,
        /// The error of the last attempt. Null if it succeeded, or if there was none.
        pub last_error: Option<String>,
        /// The identifier of the key that `sealed` is encrypted with.
        pub key_id: i64,
        /// The address and the content, encrypted.
        pub sealed: Vec<u8>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
