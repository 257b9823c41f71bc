//! `api_tokens`: what scripts and schedulers sign in with. Looked up by `identifier` before any account is
//! known, so the identifier is unique over all accounts. The secret itself is never stored.

use sea_orm::{FromJsonQueryResult, entity::prelude::*};
use serde::{Deserialize, Serialize};

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ApiTokenId, UserId},
    positional::positional,
};

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Send reports.
    Ingest,
    /// Read everything in the account.
    Read,
    /// Change things.
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
        /// The public half, in front of the dash.
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
        /// When it was last used, a minute late at the most; none if it never was.
        pub last_used_at: Option<Timestamp>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
