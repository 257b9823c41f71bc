//! The numbers of an account's clusters.

use entity::{
    cluster_counter::{Column, Entity},
    ids::ClusterId,
};
use sea_orm::{
    ConnectionTrait,
    sea_query::{Expr, ExprTrait, OnConflict, Query},
};

use crate::store::core::{error::StoreError, scoped::AccountStore};

impl AccountStore {
    /// Returns the number of the account's next cluster, from 1. It is a statement of its own, before the
    /// transaction that adds the cluster: within it, the first reports of an account would wait for each
    /// other until they are stored. A number whose cluster is not added after all stays unused.
    pub(crate) async fn take_cluster_number(&self) -> Result<ClusterId, StoreError> {
        let next = Expr::col((Entity, Column::Last)).add(1);
        let count = OnConflict::column(Column::AccountId).value(Column::Last, next).to_owned();
        let mut insert = Query::insert();
        insert
            .into_table(Entity)
            .columns([Column::AccountId, Column::Last])
            .values_panic([self.account_id().0.into(), 1_i64.into()])
            .on_conflict(count)
            .returning_col(Column::Last);
        let row = self.write_executor().query_one(&insert).await?;
        let row = row.ok_or_else(StoreError::no_free_identifier)?;
        Ok(ClusterId(row.try_get_by_index(0)?))
    }
}
