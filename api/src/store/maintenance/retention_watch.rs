//! The safety check of retention: the state that deletion depends on, and the hold that stops it.

use entity::{
    Timestamp, cluster,
    ids::AccountId,
    retention_watch::{Column, Entity, Model},
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect,
    Statement, Value,
    sea_query::{Expr, ExprTrait, OnConflict},
};

use super::retention::rows_unexpected;
use crate::{
    domain::retention::{DAY, Rule},
    store::core::{error::StoreError, system::SystemStore},
};

/// The identifier of the only row.
const ROW: i64 = 1;

#[expect(clippy::disallowed_methods, reason = "data of all accounts is deleted by age")]
impl SystemStore {
    /// Returns the state of the retention check. `None` before its first round.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn retention_watch(&self) -> Result<Option<Model>, StoreError> {
        Ok(Entity::find_by_id(ROW).one(&self.pools.reader).await?)
    }

    /// Stores the state of retention. An operator's confirmation stays as it is: it may arrive at the
    /// same time.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn record_retention_watch(&self, watch: Model) -> Result<(), StoreError> {
        let columns = [
            Column::TrustedAt,
            Column::UsualRows,
            Column::Hold,
            Column::HeldAt,
            Column::DueRows,
            Column::CompletedAt,
        ];
        let replace = OnConflict::column(Column::Id).update_columns(columns).to_owned();
        let row = Model { id: ROW, ..watch }.into_active_model().reset_all();
        Entity::insert_many([row]).on_conflict(replace).exec_without_returning(&self.pools.writer).await?;
        Ok(())
    }

    /// Accepts the clock and the numbers of due rows for the next round, if retention is on hold. Returns
    /// true if it is.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn confirm_retention(&self) -> Result<bool, StoreError> {
        let confirm = Entity::update_many().col_expr(Column::Confirmed, Expr::value(true));
        let confirmed = confirm.filter(Column::Hold.is_not_null()).exec(&self.pools.writer).await?;
        Ok(confirmed.rows_affected > 0)
    }

    /// Ends the confirmation after the round that it was for.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn end_confirmation(&self) -> Result<(), StoreError> {
        let end = Entity::update_many().col_expr(Column::Confirmed, Expr::value(false));
        end.filter(Column::Confirmed.eq(true)).exec(&self.pools.writer).await?;
        Ok(())
    }

    /// Returns the latest time that a scheduler reported by its own clock, ignoring reports more than a
    /// day ahead of the server's clock at their arrival. `None` without clusters.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn latest_reported_time(&self) -> Result<Option<Timestamp>, StoreError> {
        use cluster::Column;
        let reported_at = Expr::col(Column::ReportedAt);
        let newest: Option<Option<Timestamp>> = cluster::Entity::find()
            .select_only()
            .column_as(Column::ReportedAt.max(), "newest")
            .filter(reported_at.sub(DAY).lte(Expr::col(Column::LastSeenAt)))
            .into_tuple()
            .one(&self.pools.reader)
            .await?;
        Ok(newest.flatten())
    }

    /// Counts an account's rows that are older than `cutoff`, up to `max_rows`. `cutoff` is the limit at the
    /// time `limit_set_at`. Rows that arrived after the day before that time do not count if they were due
    /// at their arrival: no wrong clock or setting makes them many.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn count_older(
        &self,
        rule: &Rule,
        account: AccountId,
        cutoff: i64,
        limit_set_at: Timestamp,
        max_rows: u64,
    ) -> Result<u64, StoreError> {
        let limit_set_at = limit_set_at.timestamp_millis();
        let rows = rows_unexpected(
            rule,
            "$2",
            limit_set_at.saturating_sub(DAY),
            limit_set_at.saturating_sub(cutoff),
        );
        self.count_rows(&rows, vec![account.0.into(), cutoff.into()], max_rows).await
    }

    /// Counts an account's rows of a table, up to `max_rows`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn count_of_table(
        &self,
        table: &'static str,
        account: AccountId,
        max_rows: u64,
    ) -> Result<u64, StoreError> {
        let rows = format!("FROM {table} t WHERE t.account_id = $1");
        self.count_rows(&rows, vec![account.0.into()], max_rows).await
    }

    async fn count_rows(&self, rows: &str, values: Vec<Value>, max_rows: u64) -> Result<u64, StoreError> {
        let backend = self.pools.reader.get_database_backend();
        let sql = format!("SELECT COUNT(*) FROM (SELECT 1 AS found {rows} LIMIT {max_rows}) AS counted");
        let row =
            self.pools.reader.query_one_raw(Statement::from_sql_and_values(backend, sql, values)).await?;
        let count: i64 = row.map_or(Ok(0), |row| row.try_get_by_index(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}
