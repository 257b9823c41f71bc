//! `error_groups`: errors that look alike, over all clusters of an account.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ErrorGroupId, UserId},
    positional::positional,
};

/// Whose failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Origin {
    /// The computation's own code raised it.
    #[sea_orm(string_value = "user")]
    User,
    /// Dask raised it.
    #[sea_orm(string_value = "dask")]
    Dask,
}

/// What somebody said of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Status {
    /// Nothing, or that it is to be looked at again.
    #[sea_orm(string_value = "open")]
    Open,
    /// That it does not happen any more.
    #[sea_orm(string_value = "resolved")]
    Resolved,
    /// That it may happen.
    #[sea_orm(string_value = "ignored")]
    Ignored,
}

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "error_groups")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        /// Made of what the errors have in common, see `galvo::domain::fingerprint`.
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: ErrorGroupId,
        pub origin: Origin,
        pub exception_type: Option<String>,
        pub first_seen_at: Timestamp,
        pub last_seen_at: Timestamp,
        /// Which key the title is encrypted with.
        pub key_id: i64,
        /// The message without what differs from one error to the next, encrypted.
        pub sealed: Vec<u8>,
        pub status: Status,
        /// When that was said, by the server's clock; never while nobody said anything.
        pub status_changed_at: Option<Timestamp>,
        pub status_changed_by: Option<UserId>,
        /// Of a resolved group: what happened later happened again.
        pub resolved_until: Option<Timestamp>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
