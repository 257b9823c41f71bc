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
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, FromQueryResult, IdenStatic,
    IntoActiveModel, QueryFilter, QuerySelect, TransactionTrait,
    sea_query::{Expr, ExprTrait, Func, Query},
};
use serde_json::Value;

use super::ingest_day::{DELETED, OF_ACCOUNT, SECTIONS};
use crate::{
    domain::{
        audit::{Actor, Entry, Target},
        quota::{Limits, QuotaStatus, QuotaUsage},
        retention::{AccountRetention, DAY},
    },
    store::core::{
        audit_log, connect::IMMEDIATE_TRANSACTION, error::StoreError, scoped::AccountStore,
        system::SystemStore, upsert::replace,
    },
};

/// The data of a day that is still stored, by section. Less than nothing is left if data that was deleted
/// with its class was deleted with its cluster again.
#[derive(FromQueryResult)]
struct DaySums {
    day: i64,
    basic_bytes: i64,
    task_bytes: i64,
    error_bytes: i64,
    code_bytes: i64,
    profile_bytes: i64,
    event_bytes: i64,
    log_bytes: i64,
    /// All data that was accepted on the day.
    accepted_bytes: i64,
    /// The number of new clusters.
    clusters: i64,
}

impl AccountStore {
    /// Returns the account's limits and its current use of them.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.quota.status", skip_all)]
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
    pub async fn quota_status_of(
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
    pub async fn set_quota(&self, row: Model, actor: &Actor, detail: Value) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let account = row.account_id;
        let active = row.into_active_model().reset_all();
        Entity::insert(active).on_conflict(replace::<Entity>()).exec_without_returning(&transaction).await?;
        let entry = Entry::done(Action::SetQuota, Target::Account, detail);
        audit_log::insert_audit_entry(&transaction, account, actor, entry).await?;
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
    let quota = Entity::find_by_id(account).one(connection).await?;
    let limit_or =
        |field: fn(&Model) -> Option<i64>, default| quota.as_ref().and_then(field).unwrap_or(default);
    let limits = Limits {
        stored_bytes: limit_or(|row| row.stored_bytes, limits.stored_bytes),
        daily_bytes: limit_or(|row| row.daily_bytes, limits.daily_bytes),
        daily_clusters: limit_or(|row| row.daily_clusters, limits.daily_clusters),
        cluster_threads: limit_or(|row| row.cluster_threads, limits.cluster_threads),
        retention_days: limit_or(|row| row.retention_days, limits.retention_days),
    };
    let policies = data_policy::Entity::find()
        .select_only()
        .columns([data_policy::Column::DataClass, data_policy::Column::RetentionDays])
        .filter(data_policy::Column::AccountId.eq(account))
        .filter(data_policy::Column::RetentionDays.is_not_null())
        .into_tuple::<(DataClass, i64)>();
    let retention = AccountRetention {
        configured_days: policies.all(connection).await?,
        max_days: limits.retention_days,
    };
    let today = now.timestamp_millis().div_euclid(DAY);
    // A day at the limit of its age is partly removed already, and counts as a whole.
    let first_stored_days = SECTIONS.map(|(_, classes)| {
        let days = classes.iter().map(|class| retention.days(*class)).max().unwrap_or_default();
        today.saturating_sub(days)
    });
    let is_deleted = || Expr::col(ingest_day::Column::Part).eq(DELETED);
    let sum = |value: Expr| Expr::from(Func::cast_as(Func::sum(value), "bigint"));
    let remaining_sum = |column: ingest_day::Column| -> Expr {
        let value = || Expr::col(column);
        sum(Expr::case(is_deleted(), Expr::val(0_i64).sub(value())).finally(value()).into())
    };
    let accepted = SECTIONS.iter().map(|(column, _)| Expr::col(*column)).reduce(ExprTrait::add);
    let accepted = accepted.expect("there are sections");
    let mut select = Query::select();
    for (column, _) in SECTIONS {
        select.expr_as(remaining_sum(column), column.as_str());
    }
    let select = select
        .column(ingest_day::Column::Day)
        .expr_as(sum(Expr::case(is_deleted(), 0_i64).finally(accepted).into()), "accepted_bytes")
        .expr_as(sum(Expr::col(ingest_day::Column::Clusters)), "clusters")
        .from(ingest_day::Entity)
        .and_where(Expr::col(ingest_day::Column::AccountId).eq(account.0))
        .and_where(Expr::cust(OF_ACCOUNT))
        .and_where(
            Expr::col(ingest_day::Column::Day).gte(first_stored_days.into_iter().min().unwrap_or(today)),
        )
        .group_by_col(ingest_day::Column::Day)
        .take();
    let mut used = QuotaUsage::default();
    for row in connection.query_all(&select).await? {
        let sums = DaySums::from_query_result(&row, "")?;
        let section_bytes = [
            sums.basic_bytes,
            sums.task_bytes,
            sums.error_bytes,
            sums.code_bytes,
            sums.profile_bytes,
            sums.event_bytes,
            sums.log_bytes,
        ];
        for (bytes, first_day) in section_bytes.into_iter().zip(first_stored_days) {
            if sums.day >= first_day {
                used.stored_bytes = used.stored_bytes.saturating_add(Ord::max(bytes, 0));
            }
        }
        if sums.day == today {
            (used.daily_bytes, used.daily_clusters) = (sums.accepted_bytes, sums.clusters);
        }
    }
    Ok(QuotaStatus { limits, used, credential_usage: None })
}
