//! `alert_rules`: the conditions that an account is alerted to, and the receivers of the alerts.

use sea_orm::{FromJsonQueryResult, entity::prelude::*};
use serde::{Deserialize, Serialize};

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    cluster_flag::ClusterFlagKind,
    ids::{AccountId, AlertRuleId, UserId},
    json_columns::TagPattern,
};

/// The condition of an alert rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJsonQueryResult)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A cluster has an active flag of one of these kinds.
    Flags(Vec<ClusterFlagKind>),
    /// At least `count` tasks erred within the last `within_seconds`.
    Failures { count: i64, within_seconds: i64, of: AggregationScope },
    /// The last `days` days cost at least `nanos`, in billionths of the currency's unit.
    Cost { nanos: i64, currency: String, days: i64, of: AggregationScope },
    /// A cluster has had no work for `for_seconds`.
    Idle { for_seconds: i64 },
    /// The account has used at least `percent` percent of one of its quotas.
    QuotaNears { percent: i64 },
}

/// The scope over which a value is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregationScope {
    /// All clusters of the rule together.
    Account,
    /// The clusters of each user.
    User,
    /// Each cluster.
    Cluster,
}

/// The clusters that a rule covers. The default is all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Scope {
    /// Only clusters of these users.
    pub users: Option<Vec<UserId>>,
    /// Only clusters with at least one of these tags.
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
        /// The minimum time between two notifications that the same alert began, in seconds.
        pub cool_down_seconds: i64,
        /// True if receivers are also notified when an alert ends.
        pub tells_end: bool,
        pub created_at: Timestamp,
        pub changed_at: Timestamp,
        /// The user who changed the rule last.
        pub changed_by: UserId,
        /// The identifier of the key that `sealed` is encrypted with.
        pub key_id: i64,
        /// The receivers and the secret that signs messages, encrypted.
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
