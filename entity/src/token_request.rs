//! `token_requests`: tokens that programs request before anybody has signed in. They are valid for
//! nothing until a signed-in user approves them as tokens of that user, which deletes the row.

use sea_orm::entity::prelude::*;

use crate::{Timestamp, api_token::Scopes};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "token_requests")]
pub struct Model {
    /// The public half of the token.
    #[sea_orm(primary_key, auto_increment = false)]
    pub identifier: String,
    /// SHA-256 of the secret half.
    pub secret_hash: Vec<u8>,
    /// The program's name for the token, mostly the place where it runs.
    pub label: String,
    /// The requested scopes. `None` for all scopes of the user who approves it.
    pub scopes: Option<Scopes>,
    /// The address that the request came from.
    pub address: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
