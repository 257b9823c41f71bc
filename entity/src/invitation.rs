//! `invitations`: who may become a member by showing a secret. Looked up by `identifier` before the account is known, so
//! the identifier is unique over all accounts. The secret itself is never stored.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, InvitationId, UserId},
    membership::Role,
    positional::positional,
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "invitations")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: InvitationId,
        /// The public half, in front of the dash.
        pub identifier: String,
        /// SHA-256 of the secret half. The secret has 256 random bits, so it needs no slow hash.
        pub secret_hash: Vec<u8>,
        pub account_id: AccountId,
        /// Who alone may accept it; none if whoever shows the secret may.
        pub name: Option<String>,
        /// Whom it is for, in words of who made it.
        pub label: String,
        pub role: Role,
        /// When the membership is to end: for guests alone, and always for them.
        pub ends_at: Option<Timestamp>,
        /// Who made it; nil if an operator did.
        pub invited_by: UserId,
        pub created_at: Timestamp,
        pub expires_at: Timestamp,
        pub revoked_at: Option<Timestamp>,
        pub accepted_at: Option<Timestamp>,
        pub accepted_by: Option<UserId>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
}
