//! `error_groups`: groups of similar errors, over all clusters of an account.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ErrorGroupId, UserId},
};

/// The origin of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Origin {
    /// The computation's own code raised the exception.
    #[sea_orm(string_value = "user")]
    User,
    /// Dask raised the exception.
    #[sea_orm(string_value = "dask")]
    Dask,
    /// The origin cannot be determined.
    #[sea_orm(string_value = "unknown")]
    Unknown,
}

/// The triage status that a user set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Status {
    /// No status was set, or the group was opened again.
    #[sea_orm(string_value = "open")]
    Open,
    /// The error was fixed.
    #[sea_orm(string_value = "resolved")]
    Resolved,
    /// The error is accepted.
    #[sea_orm(string_value = "ignored")]
    Ignored,
}

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "error_groups")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        /// The identifier, derived from what the errors have in common, see
        /// `galvo::domain::error_fingerprint`.
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: ErrorGroupId,
        pub origin: Origin,
        pub exception_type: Option<String>,
        pub first_seen_at: Timestamp,
        pub last_seen_at: Timestamp,
        /// The identifier of the key that `sealed` is encrypted with.
        pub key_id: i64,
        /// The title, encrypted: the message without the parts that differ between errors.
        pub sealed: Vec<u8>,
        pub status: Status,
        /// The time at which the status was set, by the server's clock. Null if it was never set.
        pub status_changed_at: Option<Timestamp>,
        pub status_changed_by: Option<UserId>,
        /// The time until which errors are covered by the resolution. A later error is a regression. Null
        /// unless the group is resolved.
        pub resolved_until: Option<Timestamp>,
        /// The time since which no shown cluster has an error of the group. Null while one has.
        pub hidden_at: Option<Timestamp>,
        /// The change number of the last change: new errors, or another status. It grows with each change,
        /// and is the server's time in milliseconds wherever possible. Null if the last change is from before
        /// change numbers.
        pub changed_at: Option<i64>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
    const HIDDEN_AT: Option<Column> = Some(Column::HiddenAt);
}
