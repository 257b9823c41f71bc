//! `flag_mutes`: the kinds of flags that an account mutes, for all clusters or for those with a tag.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    cluster_flag::ClusterFlagKind,
    ids::{AccountId, UserId},
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "flag_mutes")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub kind: ClusterFlagKind,
        /// The key of a tag that a cluster must have. Empty for all clusters.
        #[sea_orm(primary_key, auto_increment = false)]
        pub tag_key: String,
        /// True if the tag may have any value.
        #[sea_orm(primary_key, auto_increment = false)]
        pub any_value: bool,
        /// The value that the tag must have. Ignored if `any_value` is true.
        #[sea_orm(primary_key, auto_increment = false)]
        pub tag_value: String,
        /// The end of the mute, in epoch milliseconds; [`crate::cluster_flag::NOT_ENDED_KEY`] if it has none.
        pub until_key: i64,
        pub muted_at: Timestamp,
        /// The user who muted the flag.
        pub muted_by: UserId,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
