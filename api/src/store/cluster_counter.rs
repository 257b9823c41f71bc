//! The numbers of an account's clusters.

use entity::{
    cluster_counter::{Column, Entity, Model},
    ids::ClusterId,
};
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};

use super::{error::StoreError, scoped::AccountStore};

impl AccountStore {
    /// Returns the number of the account's next cluster, from 1. It must run in the transaction that adds the
    /// cluster. Other transactions of the account that add clusters wait until it ends, so numbers grow in
    /// order of the first reports.
    pub(crate) async fn take_cluster_number(&self) -> Result<ClusterId, StoreError> {
        let next = Expr::col((Entity, Column::Last)).add(1);
        let count = OnConflict::column(Column::AccountId).value(Column::Last, next).to_owned();
        let first = Model { account_id: self.account_id(), last: ClusterId(1) };
        self.insert::<Entity>(vec![first], &count).await?;
        let row = self.select::<Entity>().one(&self.write_executor()).await?;
        row.map(|row| row.last).ok_or_else(StoreError::no_free_identifier)
    }
}
