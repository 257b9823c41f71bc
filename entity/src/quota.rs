//! `quotas`: the limits of accounts that differ from the server's settings. An account without its own
//! limits has no row.

use sea_orm::entity::prelude::*;

use crate::{AccountOwned, Timestamp, ids::AccountId};

/// The value for no limit.
pub const UNLIMITED: i64 = i64::MAX;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "quotas")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    /// The limit on the bytes of reports stored at a time. As for the other limits, `None` for the
    /// server's setting and [`UNLIMITED`] for no limit.
    pub stored_bytes: Option<i64>,
    /// The limit on the bytes of reports per day.
    pub daily_bytes: Option<i64>,
    /// The limit on new clusters per day.
    pub daily_clusters: Option<i64>,
    /// The limit on the threads of a cluster that count as usage.
    pub cluster_threads: Option<i64>,
    /// The limit on the retention of any data class, in days.
    pub retention_days: Option<i64>,
    pub changed_at: Timestamp,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
