//! `alert_deliveries`: messages to receivers, written together with what they tell, and sent later.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, AlertDeliveryId, AlertRuleId},
    positional::positional,
};

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Channel {
    /// By an HTTP request.
    #[sea_orm(string_value = "webhook")]
    Webhook,
    /// By e-mail.
    #[sea_orm(string_value = "email")]
    Email,
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Event {
    /// Alerts that began or ended.
    #[sea_orm(string_value = "alerts")]
    Alerts,
    /// Nothing: somebody tries whether messages arrive.
    #[sea_orm(string_value = "test")]
    Test,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// It is to be sent, perhaps again.
    #[sea_orm(string_value = "pending")]
    Pending,
    /// The receiver took it.
    #[sea_orm(string_value = "delivered")]
    Delivered,
    /// It was given up.
    #[sea_orm(string_value = "failed")]
    Failed,
}

/// The `due_key` of what is not to be sent any more.
pub const DONE: i64 = i64::MAX;

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
        /// Whom it is for, as far as everybody may read it.
        pub target: String,
        pub state: State,
        pub created_at: Timestamp,
        /// When it is to be sent next, in epoch milliseconds; [`DONE`] for never again.
        pub due_key: i64,
        /// How often it was sent, or tried to be.
        pub attempts: i64,
        /// When it arrived or was given up.
        pub ended_at: Option<Timestamp>,
        /// Why it did not arrive the last time.
        pub last_error: Option<String>,
        /// Which key the rest is encrypted with.
        pub key_id: i64,
        /// Where it goes and what it says, encrypted.
        pub sealed: Vec<u8>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
