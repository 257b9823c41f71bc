//! `passwords`: the passwords of users who sign in with a browser. A user without a row signs in
//! in another way.

use sea_orm::entity::prelude::*;

use crate::{Timestamp, ids::UserId};

#[derive(Clone, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "passwords")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: UserId,
    /// Argon2id with its parameters and salt, in PHC notation.
    pub hash: String,
    pub changed_at: Timestamp,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("password::Model").field("user_id", &self.user_id).finish_non_exhaustive()
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
