//! `saved_views`: named searches of a page, of one member or shared with the account.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, SavedViewId, UserId},
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "saved_views")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: SavedViewId,
        /// The only member who sees the view. Null if all members do.
        pub owner_id: Option<UserId>,
        /// The user who created the view.
        pub created_by: UserId,
        pub name: String,
        /// The page that the view belongs to.
        pub page: String,
        /// The search parameters of the page.
        pub parameters: String,
        pub created_at: Timestamp,
        pub changed_at: Timestamp,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
