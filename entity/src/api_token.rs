//! `api_tokens`: the credentials of scripts and schedulers. A token is looked up by `identifier` before any
//! account is known, so the identifier is unique over all accounts. The secret itself is never stored.

use sea_orm::{FromJsonQueryResult, entity::prelude::*};
use serde::{Deserialize, Serialize};

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ApiTokenId, UserId},
};

/// A permission of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Send reports.
    Ingest,
    /// Read everything in the account.
    Read,
    /// Change data and settings of the account.
    Admin,
}

/// The scopes of one token, each once, in the order of [`Scope`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Scopes(pub Vec<Scope>);

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "api_tokens")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: ApiTokenId,
        /// The identifier: the part of the token before the dash.
        pub identifier: String,
        /// SHA-256 of the secret half. The secret has 256 random bits, so it needs no slow hash.
        pub secret_hash: Vec<u8>,
        pub account_id: AccountId,
        pub user_id: UserId,
        pub label: String,
        pub scopes: Scopes,
        pub created_at: Timestamp,
        pub expires_at: Option<Timestamp>,
        pub revoked_at: Option<Timestamp>,
        /// The time of the last use, up to a minute late. Null if the token was never used.
        pub last_used_at: Option<Timestamp>,
        /// True if the token belongs to a scheduler. Such a token is valid only for the reports of one
        /// scheduler, and expires shortly after the scheduler stops reporting.
        pub is_of_scheduler: bool,
        /// The token that was exchanged for this one; this one is revoked with it. Null if it was exchanged
        /// for a session or a JWT, and for other tokens.
        pub parent_id: Option<ApiTokenId>,
        /// The scheduler that the token is bound to. Null before its first use, and for tokens that belong
        /// to no scheduler.
        pub scheduler_id: Option<String>,
        /// The latest time to which reports can extend the expiry. Null if there is no limit, and for
        /// tokens that belong to no scheduler.
        pub renewable_until: Option<Timestamp>,
        /// The last use by a scheduler although the scopes allow more than reports, up to a minute late.
        /// Null if there was none.
        pub broad_use_at: Option<Timestamp>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
