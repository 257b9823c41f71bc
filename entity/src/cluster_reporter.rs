//! `cluster_reporters`: the tokens with which a cluster was reported.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ApiTokenId, ClusterId},
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "cluster_reporters")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: AccountId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cluster_id: ClusterId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub token_id: ApiTokenId,
    /// The public half of the token, which identifies it after its member is removed.
    pub token_identifier: String,
    /// The public half of the token that the token was exchanged for. Null for tokens that belong to no
    /// scheduler, and for those exchanged for a session or a JWT.
    pub parent_identifier: Option<String>,
    /// The time of the first report with the token, by the server's clock.
    pub first_seen_at: Timestamp,
    /// The time of the last report with the token, by the server's clock, up to a minute early.
    pub last_seen_at: Timestamp,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
