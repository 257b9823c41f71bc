//! `alert_rules`: whom an account wants to be told of what.

use sea_orm::{FromJsonQueryResult, entity::prelude::*};
use serde::{Deserialize, Serialize};

use crate::{
    AccountOwned, Timestamp,
    cluster_flag::Kind,
    ids::{AccountId, AlertRuleId, UserId},
    list::TagPattern,
    positional::positional,
};

/// What an account wants to be told of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJsonQueryResult)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// One of these was noticed of a cluster.
    Flags(Vec<Kind>),
    /// So many tasks erred within so many seconds.
    Failures { count: i64, within_seconds: i64, of: Whose },
    /// The last so many days cost so much or more, in billionths of a currency.
    Cost { nanos: i64, currency: String, days: i64, of: Whose },
    /// A cluster has had nothing to do for so many seconds.
    Idle { for_seconds: i64 },
}

/// Of what a number is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// Of all clusters of the rule together.
    Account,
    /// Of those of each user.
    User,
    /// Of each cluster.
    Cluster,
}

/// Which clusters a rule is about: all, unless it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Scope {
    /// Those of these users.
    pub users: Option<Vec<UserId>>,
    /// Those with at least one of these tags.
    pub tags: Option<Vec<TagPattern>>,
}

positional! {
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "alert_rules")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: AlertRuleId,
        pub name: String,
        pub enabled: bool,
        pub condition: Condition,
        pub scope: Scope,
        /// How long nothing is said again of what was just told.
        pub cool_down_seconds: i64,
        /// Whether it is told when it is over, too.
        pub tells_end: bool,
        pub created_at: Timestamp,
        pub changed_at: Timestamp,
        /// Who said so.
        pub changed_by: UserId,
        /// Which key the channels are encrypted with.
        pub key_id: i64,
        /// Where to send it and the secret it is signed with, encrypted.
        pub sealed: Vec<u8>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
