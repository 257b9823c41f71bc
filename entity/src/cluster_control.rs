//! `cluster_controls`: decisions of people and of the idle policy on whether a cluster keeps running. A
//! cluster without decisions has no row. Reasons are not encrypted, because the scheduler also reports them
//! when it closes.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ClusterId, UserId},
};

/// The origin of a request to stop a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum StopOrigin {
    /// A member of the account.
    #[sea_orm(string_value = "user")]
    User,
    /// An operator on the command line of the server.
    #[sea_orm(string_value = "operator")]
    Operator,
    /// The account's idle policy.
    #[sea_orm(string_value = "idle_policy")]
    IdlePolicy,
}

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "cluster_controls")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        /// The time at which a member last protected the cluster from being stopped for idleness. Null if
        /// there was none.
        pub kept_at: Option<Timestamp>,
        /// The end of that protection.
        pub kept_until: Option<Timestamp>,
        /// The member who protected the cluster.
        pub kept_by: Option<UserId>,
        /// The time at which the idle policy marked the cluster. Null if it did not.
        pub warned_at: Option<Timestamp>,
        /// The beginning of the idle period that was marked, by the scheduler's clock. The mark does not
        /// apply to another idle period.
        pub warned_idle_since: Option<Timestamp>,
        /// The time of the request to stop the cluster. Null if there is none.
        pub stop_at: Option<Timestamp>,
        /// The origin of the request.
        pub stop_origin: Option<StopOrigin>,
        /// The member who made the request. Null for other origins.
        pub stop_user_id: Option<UserId>,
        /// The reason of the request, as text.
        pub stop_reason: Option<String>,
        /// The time before which idleness does not count. Null if all idleness since the first report counts.
        pub counted_since: Option<Timestamp>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
