//! `token_requests`: tokens that programs asked for before anybody signed in. They are good for nothing until somebody
//! who is signed in makes them tokens of theirs, which the row does not outlive.

use sea_orm::entity::prelude::*;

use crate::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "token_requests")]
pub struct Model {
    /// The public half of the token.
    #[sea_orm(primary_key, auto_increment = false)]
    pub identifier: String,
    /// SHA-256 of the secret half.
    pub secret_hash: Vec<u8>,
    /// What the program calls it: where it runs, mostly.
    pub label: String,
    /// Where it was asked for from.
    pub address: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
