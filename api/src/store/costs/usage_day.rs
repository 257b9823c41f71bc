//! Daily usage: sums of hours, recomputed whenever one of the hours has changed.
//!
//! A report writes its hours as not folded. Folding a day marks its hours and replaces the day's rows by
//! sums over all of them, in one transaction. A concurrent report for one of the hours either commits
//! first: its row lock makes the marking wait, and the sums include it. Or it comes later, and marks the
//! hour as not folded again. Folds of one account are serialized by a lock on the account's row (on
//! SQLite by the single writer).

use std::collections::BTreeMap;

use entity::{
    account, function_usage_day,
    ids::AccountId,
    usage_day::{Column, Entity},
    usage_hour,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseBackend, DatabaseTransaction, EntityTrait, FromQueryResult,
    QueryFilter, QueryOrder, QuerySelect, TransactionTrait,
    sea_query::{Expr, ExprTrait, Func, LockType, Query, SelectStatement},
};
use uuid::Uuid;

use super::{
    function_usage::FUNCTION_SUMS,
    usage_columns::UsageColumns,
    usage_hour::{DAY, DAY_HOURS, cut_days, cut_hours, sum_of},
};
use crate::{
    domain::usage::Usage,
    store::core::{
        connect::IMMEDIATE_TRANSACTION, error::StoreError, scoped::AccountStore, shown_clusters::is_shown,
        system::SystemStore,
    },
};

/// The largest number of unfolded hours read at once.
pub(crate) const MAX_DUE: u64 = 1_000;

/// A day of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, FromQueryResult)]
pub struct AccountDay {
    /// The account.
    pub account_id: AccountId,
    /// The number of whole days since 1970-01-01 UTC.
    pub day: i64,
}

#[expect(clippy::disallowed_methods, reason = "days are folded for all accounts")]
impl SystemStore {
    /// Returns the days of unfolded hours of the accounts after `after`, one entry per cluster and hour,
    /// at most `MAX_DUE`. They are in the order of the partial index on these hours, so accounts
    /// without any cost nothing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_day.due", skip_all)]
    pub async fn usage_days_due(&self, after: Option<AccountId>) -> Result<Vec<AccountDay>, StoreError> {
        let mut select = unfolded();
        if let Some(account) = after {
            select = select.filter(usage_hour::Column::AccountId.gt(account));
        }
        Ok(select.into_model().all(&self.pools.reader).await?)
    }

    /// Returns the same for one account, from the day `from` on.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_day.due_of", skip_all)]
    pub async fn usage_days_due_of(
        &self,
        account: AccountId,
        from: i64,
    ) -> Result<Vec<AccountDay>, StoreError> {
        let select = unfolded()
            .filter(usage_hour::Column::AccountId.eq(account))
            .filter(usage_hour::Column::Hour.gte(from.saturating_mul(DAY_HOURS)));
        Ok(select.into_model().all(&self.pools.reader).await?)
    }

    /// Returns all days with hours or sums, of one account or of all.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_day.all", skip_all)]
    pub async fn usage_days_of(&self, account: Option<AccountId>) -> Result<Vec<AccountDay>, StoreError> {
        let mut hours = usage_hour::Entity::find()
            .select_only()
            .distinct()
            .column(usage_hour::Column::AccountId)
            .expr_as(Expr::cust(DAY), "day");
        let mut days = Entity::find().select_only().distinct().column(Column::AccountId).column(Column::Day);
        if let Some(account) = account {
            hours = hours.filter(usage_hour::Column::AccountId.eq(account));
            days = days.filter(Column::AccountId.eq(account));
        }
        let mut account_days: Vec<AccountDay> = hours.into_model().all(&self.pools.reader).await?;
        account_days.extend(days.into_model::<AccountDay>().all(&self.pools.reader).await?);
        account_days.sort_unstable();
        account_days.dedup();
        Ok(account_days)
    }

    /// Replaces the sums of a day by those of its hours.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    #[tracing::instrument(name = "store.usage_day.fold", skip_all)]
    pub async fn fold_usage_day(&self, day: AccountDay) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        fold(&transaction, day).await?;
        transaction.commit().await?;
        Ok(())
    }
}

/// Selects the days of unfolded hours, by account and time.
#[expect(clippy::disallowed_methods, reason = "days are folded for all accounts")]
fn unfolded() -> sea_orm::Select<usage_hour::Entity> {
    usage_hour::Entity::find()
        .select_only()
        .column(usage_hour::Column::AccountId)
        .expr_as(Expr::cust(DAY), "day")
        .filter(Expr::cust("NOT folded"))
        .order_by_asc(usage_hour::Column::AccountId)
        .order_by_asc(usage_hour::Column::Hour)
        .limit(MAX_DUE)
}

#[expect(clippy::disallowed_methods, reason = "days are folded for all accounts")]
async fn fold(
    transaction: &DatabaseTransaction,
    AccountDay { account_id, day }: AccountDay,
) -> Result<(), StoreError> {
    // FOR UPDATE would block each report that refers to the account.
    let lock = account::Entity::find_by_id(account_id).lock(LockType::NoKeyUpdate);
    lock.one(transaction).await?;
    let hours = |column: usage_hour::Column| {
        Expr::col(column).gte(day * DAY_HOURS).and(Expr::col(column).lt((day + 1) * DAY_HOURS))
    };
    usage_hour::Entity::update_many()
        .col_expr(usage_hour::Column::Folded, Expr::val(true))
        .filter(usage_hour::Column::AccountId.eq(account_id))
        .filter(hours(usage_hour::Column::Hour))
        .filter(Expr::cust("NOT folded"))
        .exec(transaction)
        .await?;
    Entity::delete_many()
        .filter(Column::AccountId.eq(account_id))
        .filter(Column::Day.eq(day))
        .exec(transaction)
        .await?;
    function_usage_day::Entity::delete_many()
        .filter(function_usage_day::Column::AccountId.eq(account_id))
        .filter(function_usage_day::Column::Day.eq(day))
        .exec(transaction)
        .await?;

    let backend = transaction.get_database_backend();
    let clusters = Func::count_distinct(Expr::col(("hours", "cluster_id")));
    let mut days = hours_by_user("usage_hours", account_id, day, backend);
    days.expr_as(clusters, "clusters").expr_as(cut_hours("hours").gt(0), "is_cut");
    let keys = ["account_id", "day", "user_id", "clusters", "is_cut"];
    let sums: Vec<_> = UsageColumns::ALL.names().collect();
    insert_sums(transaction, "usage_days", &keys, days, &sums).await?;

    let mut functions = hours_by_user("function_usage_hours", account_id, day, backend);
    functions.column(("hours", "prefix")).group_by_col(("hours", "prefix"));
    let keys = ["account_id", "day", "user_id", "prefix"];
    insert_sums(transaction, "function_usage_days", &keys, functions, &FUNCTION_SUMS).await
}

/// Selects the hours of a day, grouped by the user of their cluster. The caller adds the columns.
fn hours_by_user(
    table: &'static str,
    account: AccountId,
    day: i64,
    backend: DatabaseBackend,
) -> SelectStatement {
    let user = Func::coalesce([Expr::col(("clusters", "user_id")), Expr::val(Uuid::nil())]);
    let hour = || Expr::col(("hours", "hour"));
    Query::select()
        .column(("hours", "account_id"))
        .expr_as(Expr::val(day), "day")
        .expr_as(user, "user_id")
        .from_as(table, "hours")
        .inner_join(
            "clusters",
            Expr::col(("clusters", "account_id"))
                .equals(("hours", "account_id"))
                .and(Expr::col(("clusters", "id")).equals(("hours", "cluster_id"))),
        )
        .and_where(Expr::col(("hours", "account_id")).eq(account.0))
        .and_where(is_shown(Expr::col(("hours", "cluster_id")), account, backend))
        .and_where(hour().gte(day * DAY_HOURS))
        .and_where(hour().lt((day + 1) * DAY_HOURS))
        .group_by_col(("hours", "account_id"))
        .group_by_col(("clusters", "user_id"))
        .take()
}

/// Runs `INSERT INTO table (keys, sums) SELECT keys, SUM(..) ..`.
async fn insert_sums(
    transaction: &DatabaseTransaction,
    table: &'static str,
    keys: &[&'static str],
    mut select: SelectStatement,
    sums: &[&'static str],
) -> Result<(), StoreError> {
    for column in sums {
        select.expr_as(sum_of(transaction.get_database_backend(), ("hours", *column)), *column);
    }
    let columns = keys.iter().chain(sums).copied();
    let insert = Query::insert()
        .into_table(table)
        .columns(columns)
        .select_from(select)
        .expect("the statement selects what it names")
        .take();
    transaction.execute(&insert).await?;
    Ok(())
}

impl AccountStore {
    /// Returns some columns of the account's usage by day, from the day `from` to before `to`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_day.days", skip_all)]
    pub async fn usage_days(
        &self,
        (from, to): (i64, i64),
        columns: UsageColumns,
    ) -> Result<BTreeMap<i64, Usage>, StoreError> {
        let select = self
            .select::<Entity>()
            .select_only()
            .column(Column::Day)
            .filter(Column::Day.gte(from))
            .filter(Column::Day.lt(to))
            .group_by(Column::Day);
        self.read_days(select, columns, cut_days()).await
    }
}
