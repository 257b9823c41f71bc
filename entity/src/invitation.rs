//! `invitations`: offers of a membership to the bearer of a secret. An invitation is looked up by
//! `identifier` before the account is known, so the identifier is unique over all accounts. The secret
//! itself is never stored.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, InvitationId, UserId},
    membership::Role,
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "invitations")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: InvitationId,
        /// The identifier: the part of the token before the dash.
        pub identifier: String,
        /// SHA-256 of the secret half. The secret has 256 random bits, so it needs no slow hash.
        pub secret_hash: Vec<u8>,
        pub account_id: AccountId,
        /// The name of the only user who may accept it. `None` for any bearer of the secret.
        pub name: Option<String>,
        /// The invitee, in the inviter's words.
        pub label: String,
        pub role: Role,
        /// The end of the membership. Set for guests, and `None` for all other roles.
        pub ends_at: Option<Timestamp>,
        /// The inviter. Nil for an operator.
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
    const CLUSTER_ID: Option<Column> = None;
}
