//! The quotas of accounts, and their usage.

use entity::{
    Timestamp,
    audit_entry::Action,
    data_policy::{self, DataClass},
    ids::AccountId,
    ingest_day,
    quota::{Entity, Model},
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, IntoActiveModel,
    QueryFilter, QuerySelect, TransactionTrait,
    sea_query::{Expr, ExprTrait, Func, Query},
};
use serde_json::Value;

use super::{
    audit_entry,
    connect::IMMEDIATE_TRANSACTION,
    error::StoreError,
    ingest_day::{IS_SUM, SECTIONS},
    scoped::AccountStore,
    system::SystemStore,
    upsert::replace,
};
use crate::domain::{
    audit::{Actor, Entry, Target},
    quota::{Limits, QuotaStatus, QuotaUsage},
    retention::{AccountRetention, DAY},
};

#[derive(FromQueryResult)]
struct Sums {
    stored_bytes: Option<i64>,
    daily_bytes: Option<i64>,
    daily_clusters: Option<i64>,
}

impl AccountStore {
    /// Returns the account's limits and its current use of them.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.quota.standing", skip_all)]
    pub async fn quota_status(&self, now: Timestamp) -> Result<QuotaStatus, StoreError> {
        load_status(&self.read_executor(), self.account_id(), self.limits(), now).await
    }
}

impl SystemStore {
    /// Returns the quota set for an account. `None` if none is set.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[expect(clippy::disallowed_methods, reason = "an operator sees all accounts")]
    pub async fn quota(&self, account: AccountId) -> Result<Option<Model>, StoreError> {
        Ok(Entity::find_by_id(account).one(&self.pools.reader).await?)
    }

    /// Returns an account's limits and its current use of them.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn quota_standing(
        &self,
        account: AccountId,
        now: Timestamp,
    ) -> Result<QuotaStatus, StoreError> {
        load_status(&self.pools.reader, account, self.limits, now).await
    }

    /// Sets an account's quota and writes an audit entry.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    pub async fn set_quota(&self, row: Model, by: &Actor, detail: Value) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let account = row.account_id;
        let active = row.into_active_model().reset_all();
        Entity::insert(active).on_conflict(replace::<Entity>()).exec_without_returning(&transaction).await?;
        let entry = Entry::done(Action::SetQuota, Target::Account, detail);
        audit_entry::insert_audit_entry(&transaction, account, by, entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "operators and accounts share this query")]
async fn load_status(
    connection: &impl ConnectionTrait,
    account: AccountId,
    limits: Limits,
    now: Timestamp,
) -> Result<QuotaStatus, StoreError> {
    let said = Entity::find_by_id(account).one(connection).await?;
    let or = |of: fn(&Model) -> Option<i64>, default| said.as_ref().and_then(of).unwrap_or(default);
    let limits = Limits {
        stored_bytes: or(|row| row.stored_bytes, limits.stored_bytes),
        daily_bytes: or(|row| row.daily_bytes, limits.daily_bytes),
        daily_clusters: or(|row| row.daily_clusters, limits.daily_clusters),
        cluster_threads: or(|row| row.cluster_threads, limits.cluster_threads),
        retention_days: or(|row| row.retention_days, limits.retention_days),
    };
    let policies = data_policy::Entity::find()
        .select_only()
        .columns([data_policy::Column::DataClass, data_policy::Column::RetentionDays])
        .filter(data_policy::Column::AccountId.eq(account))
        .filter(data_policy::Column::RetentionDays.is_not_null())
        .into_tuple::<(DataClass, i64)>();
    let kept =
        AccountRetention { configured_days: policies.all(connection).await?, at_most: limits.retention_days };
    let today = now.timestamp_millis().div_euclid(DAY);
    let day = || Expr::col(ingest_day::Column::Day);
    let bigint = |sum: Expr| Expr::from(Func::cast_as(Func::sum(sum), "bigint"));
    let since = |classes: &[DataClass]| {
        let days = classes.iter().map(|class| kept.days(*class)).max().unwrap_or_default();
        today.saturating_sub(days)
    };
    // A day at the limit of its age is partly removed already, and counts as a whole.
    let kept_of = |column: ingest_day::Column, classes: &[DataClass]| -> Expr {
        Expr::case(day().gte(since(classes)), Expr::col(column)).finally(0_i64).into()
    };
    let of_today = |column: Expr| -> Expr { Expr::case(day().eq(today), column).finally(0_i64).into() };
    let add = |one: Expr, other: Expr| one.add(other);
    let all = SECTIONS.iter().map(|(column, _)| Expr::col(*column)).reduce(add);
    let stored = SECTIONS.iter().map(|(column, classes)| kept_of(*column, classes)).reduce(add);
    let oldest = SECTIONS.iter().map(|(_, classes)| since(classes)).min().unwrap_or(today);
    let select = Query::select()
        .expr_as(bigint(stored.expect("there are sections")), "stored_bytes")
        .expr_as(bigint(of_today(all.expect("there are sections"))), "daily_bytes")
        .expr_as(bigint(of_today(Expr::col(ingest_day::Column::Clusters))), "daily_clusters")
        .from(ingest_day::Entity)
        .and_where(Expr::col(ingest_day::Column::AccountId).eq(account.0))
        .and_where(Expr::cust(IS_SUM))
        .and_where(day().gte(oldest))
        .take();
    let row = connection.query_one(&select).await?;
    let sums = row.map(|row| Sums::from_query_result(&row, "")).transpose()?;
    let sum = |of: fn(&Sums) -> Option<i64>| sums.as_ref().and_then(of).unwrap_or_default();
    let used = QuotaUsage {
        stored_bytes: sum(|sums| sums.stored_bytes),
        daily_bytes: sum(|sums| sums.daily_bytes),
        daily_clusters: sum(|sums| sums.daily_clusters),
    };
    Ok(QuotaStatus { limits, used, by_credential: None })
}
