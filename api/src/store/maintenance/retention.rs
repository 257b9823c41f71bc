//! Deletion of rows past their account's retention, a bounded number of rows at a time.

use std::collections::BTreeMap;

use entity::{
    Timestamp,
    audit_entry::Action,
    cluster_removal::State,
    data_policy::{self, DataClass},
    ids::{AccountId, ClusterId},
    quota,
};
use sea_orm::{
    ActiveEnum, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, Statement,
    TransactionTrait, Value,
};
use serde_json::json;

use crate::{
    domain::{
        audit::{Entry, Target},
        retention::{AccountRetention, AgeSource, RULES, Rule},
    },
    store::core::{
        connect::IMMEDIATE_TRANSACTION,
        error::StoreError,
        scoped::{AccountStore, Write},
        system::SystemStore,
    },
};

/// The largest number of rows that one statement deletes, which bounds the time that ingest has to wait.
pub const BATCH: u64 = 2_000;

impl SystemStore {
    /// Returns the accounts that follow `after`, at most `limit`, with the retention of each.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[expect(clippy::disallowed_methods, reason = "data of all accounts is deleted by age")]
    pub async fn retention_after(
        &self,
        after: Option<AccountId>,
        limit: u64,
    ) -> Result<Vec<(AccountId, AccountRetention)>, StoreError> {
        let accounts = self.accounts_after(after, limit).await?;
        let (Some(first), Some(last)) = (accounts.first(), accounts.last()) else { return Ok(Vec::new()) };
        let rows: Vec<(AccountId, DataClass, i64)> = data_policy::Entity::find()
            .select_only()
            .columns([
                data_policy::Column::AccountId,
                data_policy::Column::DataClass,
                data_policy::Column::RetentionDays,
            ])
            .filter(data_policy::Column::AccountId.gte(*first))
            .filter(data_policy::Column::AccountId.lte(*last))
            .filter(data_policy::Column::RetentionDays.is_not_null())
            .into_tuple()
            .all(&self.pools.reader)
            .await?;
        let quotas: Vec<(AccountId, i64)> = quota::Entity::find()
            .select_only()
            .columns([quota::Column::AccountId, quota::Column::RetentionDays])
            .filter(quota::Column::AccountId.gte(*first))
            .filter(quota::Column::AccountId.lte(*last))
            .filter(quota::Column::RetentionDays.is_not_null())
            .into_tuple()
            .all(&self.pools.reader)
            .await?;
        let quotas: BTreeMap<AccountId, i64> = quotas.into_iter().collect();
        let mut configured_days: BTreeMap<AccountId, Vec<(DataClass, i64)>> = BTreeMap::new();
        for (account, class, days) in rows {
            configured_days.entry(account).or_default().push((class, days));
        }
        let retention = |account: AccountId| AccountRetention {
            configured_days: configured_days.get(&account).cloned().unwrap_or_default(),
            max_days: quotas.get(&account).copied().unwrap_or(self.limits.retention_days),
        };
        Ok(accounts.into_iter().map(|account| (account, retention(account))).collect())
    }

    /// Returns the rules, by their indexes in `rules`, for which an account has rows past retention.
    /// Each rule has the time before which rows are deleted.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn rules_due(
        &self,
        account: AccountId,
        rules: &[(&Rule, i64)],
    ) -> Result<Vec<usize>, StoreError> {
        self.rules_with_rows(account, rules, |rule, cutoff| Some(rows_older(rule, cutoff))).await
    }

    /// Returns the rules, by their indexes in `rules`, for which an account has rows with a time after
    /// `ahead`, which is in the future, that arrived before the rule's time.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn rules_ahead(
        &self,
        account: AccountId,
        rules: &[(&Rule, i64)],
        ahead: i64,
    ) -> Result<Vec<usize>, StoreError> {
        self.rules_with_rows(account, rules, |rule, cutoff| rows_ahead(rule, cutoff, ahead)).await
    }

    /// Returns the indexes of the rules that have rows. `rows` builds the FROM clause for a rule and the
    /// parameter with its time.
    async fn rules_with_rows(
        &self,
        account: AccountId,
        rules: &[(&Rule, i64)],
        rows: impl Fn(&Rule, &str) -> Option<String>,
    ) -> Result<Vec<usize>, StoreError> {
        let (mut probes, mut values) = (Vec::new(), vec![Value::from(account.0)]);
        for (index, (rule, cutoff)) in rules.iter().enumerate() {
            let Some(rows) = rows(rule, &format!("${}", values.len() + 1)) else { continue };
            values.push(Value::from(*cutoff));
            probes.push(format!(
                "SELECT * FROM (SELECT CAST({index} AS BIGINT) AS place {rows} LIMIT 1) AS rule_{index}"
            ));
        }
        if probes.is_empty() {
            return Ok(Vec::new());
        }
        let (backend, sql) = (self.pools.reader.get_database_backend(), probes.join(" UNION ALL "));
        // The probes run on the reader, so that on SQLite they keep no writer waiting.
        let rows_found =
            self.pools.reader.query_all_raw(Statement::from_sql_and_values(backend, sql, values));
        let indexes = rows_found.await?.into_iter().map(|row| row.try_get_by_index::<i64>(0));
        indexes.map(|index| Ok(usize::try_from(index?).unwrap_or_default())).collect()
    }

    /// Deletes up to [`BATCH`] rows of an account that are older than `cutoff`. Returns the number of
    /// deleted rows.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn remove_older(
        &self,
        rule: &Rule,
        account: AccountId,
        cutoff: i64,
    ) -> Result<u64, StoreError> {
        let backend = self.pools.writer.get_database_backend();
        let values: [Value; 2] = [account.0.into(), cutoff.into()];
        let statement = |sql: String| Statement::from_sql_and_values(backend, sql, values.clone());
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        if rule.age == AgeSource::Cluster {
            // A scheduler that reports again after such a time has to send its complete state, since it
            // would otherwise send only changes. Its cluster's row stays locked until the rows are
            // deleted.
            let forget = "UPDATE clusters SET complete_until = -1 \
                          WHERE account_id = $1 AND complete_until >= 0 AND last_seen_at < $2";
            transaction.execute_raw(statement(forget.to_owned())).await?;
        }
        let delete = match rule.age {
            // The condition limits PostgreSQL to the partitions that are old enough, and checks rows
            // again that a concurrent report has changed.
            AgeSource::Row(column) | AgeSource::RowOfAccount(column) => {
                format!(
                    "{} AND {}.{column} < $2",
                    delete_statement(rule, &rows_older(rule, "$2")),
                    rule.table
                )
            }
            AgeSource::Cluster => delete_statement(rule, &rows_older(rule, "$2")),
        };
        let removed_rows = transaction.execute_raw(statement(delete)).await?.rows_affected();
        transaction.commit().await?;
        Ok(removed_rows)
    }

    /// Deletes up to [`BATCH`] rows of an account with a time after `ahead`, which is in the future,
    /// that arrived before `cutoff`. Returns the number of deleted rows. The last report of the cluster
    /// counts as the arrival of rows that do not record their own.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn remove_ahead(
        &self,
        rule: &Rule,
        account: AccountId,
        cutoff: i64,
        ahead: i64,
    ) -> Result<u64, StoreError> {
        let (AgeSource::Row(column), Some(rows)) = (rule.age, rows_ahead(rule, "$2", ahead)) else {
            return Ok(0);
        };
        let sql = format!("{} AND {}.{column} > {ahead}", delete_statement(rule, &rows), rule.table);
        let values: [Value; 2] = [account.0.into(), cutoff.into()];
        let backend = self.pools.writer.get_database_backend();
        let statement = Statement::from_sql_and_values(backend, sql, values);
        Ok(self.pools.writer.execute_raw(statement).await?.rows_affected())
    }
}

/// The tables whose rows record their arrival.
const TABLES_WITH_ARRIVAL: [&str; 3] = ["events", "log_lines", "error_occurrences"];

impl AccountStore {
    /// Deletes all rows of a data class, or those of one cluster. Returns the number of deleted rows.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Rows that were deleted before stay deleted.
    #[tracing::instrument(name = "store.retention.remove_class", skip_all)]
    pub async fn remove_class(
        &self,
        class: DataClass,
        cluster: Option<ClusterId>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let detail = json!({ "class": class.to_value(), "cluster": cluster.map(|cluster| cluster.0) });
        let target = cluster.map_or(Target::Account, Target::Cluster);
        self.record_audit_entry(Entry::done(Action::DeleteData, target, detail)).await?;
        let (mut removed_rows, mut is_of_clusters) = (0, false);
        for rule in RULES.into_iter().filter(|rule| rule.class == class) {
            if rule.key.first() == Some(&"cluster_id") {
                is_of_clusters = true;
            } else if cluster.is_some() {
                continue;
            }
            loop {
                let batch_size = self.write(move |store| {
                    Box::pin(async move { store.remove_batch_of_class(&rule, cluster).await })
                });
                let batch_size = batch_size.await?;
                removed_rows += batch_size;
                if batch_size < BATCH {
                    break;
                }
            }
        }
        let count = move |store: Self| -> Write<()> {
            Box::pin(async move {
                let Some(cluster) = cluster else { return store.delete_ingest_of_class(class, now).await };
                // Some other rows of these classes stay, so that their size is not known.
                if !is_of_clusters || class == DataClass::Basic {
                    return Ok(());
                }
                let Some((row, removal)) = store.lock_with_removal(cluster).await? else { return Ok(()) };
                match removal {
                    Some(State::Removing | State::Removed) => Ok(()),
                    removal => store.delete_ingest_of_cluster_class(&row, class, removal.is_some()).await,
                }
            })
        };
        self.write(count).await?;
        Ok(removed_rows)
    }

    async fn remove_batch_of_class(
        &self,
        rule: &Rule,
        cluster: Option<ClusterId>,
    ) -> Result<u64, StoreError> {
        let (table, origins) = (rule.table, origins(rule));
        let cluster_condition = cluster.map_or("", |_| " AND t.cluster_id = $2");
        let sql = delete_statement(
            rule,
            &format!("FROM {table} t WHERE t.account_id = $1{cluster_condition}{origins}"),
        );
        let account = Value::from(self.account_id().0);
        let values: Vec<Value> =
            [account].into_iter().chain(cluster.map(|cluster| cluster.0.into())).collect();
        let writes = self.write_executor();
        let statement = Statement::from_sql_and_values(writes.get_database_backend(), sql, values);
        Ok(writes.execute_raw(statement).await?.rows_affected())
    }
}

/// Returns the statement that deletes up to [`BATCH`] rows of the account `$1`. `rows` is the FROM
/// clause that selects them as `t`.
fn delete_statement(rule: &Rule, rows: &str) -> String {
    let key: Vec<&str> = [&["account_id"], rule.key].concat();
    let selected = key.iter().map(|column| format!("t.{column}")).collect::<Vec<_>>().join(", ");
    let (table, columns) = (rule.table, key.join(", "));
    format!(
        "DELETE FROM {table} WHERE account_id = $1 AND ({columns}) IN (SELECT {selected} {rows} LIMIT {BATCH})"
    )
}

/// The rows of the account `$1` as a part of a statement, where `cutoff` is the parameter with the time.
fn rows_older(rule: &Rule, cutoff: &str) -> String {
    let (table, origins, cluster_rows) = (rule.table, origins(rule), cluster_rows(rule));
    match rule.age {
        AgeSource::Row(column) => format!("{cluster_rows} AND t.{column} < {cutoff}"),
        AgeSource::Cluster => format!("{cluster_rows} AND c.last_seen_at < {cutoff}"),
        AgeSource::RowOfAccount(column) => {
            format!("FROM {table} t WHERE t.account_id = $1{origins} AND t.{column} < {cutoff}")
        }
    }
}

/// Returns the FROM clause for the rows of [`rows_older`] that were not expected to be deleted. Rows are
/// expected if they arrived after `since` and were older than `kept_ms` at their arrival.
pub(crate) fn rows_unexpected(rule: &Rule, cutoff: &str, since: i64, kept_ms: i64) -> String {
    let older = rows_older(rule, cutoff);
    if let AgeSource::Row(column) = rule.age
        && TABLES_WITH_ARRIVAL.contains(&rule.table)
    {
        format!("{older} AND (t.arrived_at <= {since} OR t.{column} >= t.arrived_at - {kept_ms})")
    } else {
        older
    }
}

/// Returns the FROM clause for the rows of the account `$1` with a time after `ahead` that arrived
/// before the parameter `cutoff`. `None` if the table's rows cannot be ahead.
fn rows_ahead(rule: &Rule, cutoff: &str, ahead: i64) -> Option<String> {
    let AgeSource::Row(column) = rule.age else { return None };
    let arrived = if TABLES_WITH_ARRIVAL.contains(&rule.table) {
        format!("t.arrived_at > 0 AND t.arrived_at < {cutoff}")
    } else {
        format!("c.last_seen_at < {cutoff}")
    };
    rule.may_be_in_future().then(|| format!("{} AND t.{column} > {ahead} AND {arrived}", cluster_rows(rule)))
}

/// Returns the FROM clause for the rows of the account `$1` in a table with a cluster column.
fn cluster_rows(rule: &Rule) -> String {
    let (table, origins) = (rule.table, origins(rule));
    // The join goes cluster by cluster, since each cluster is one range of the primary key. For SQLite,
    // `CROSS JOIN` fixes the order of the join.
    format!(
        "FROM clusters c CROSS JOIN {table} t \
         WHERE c.account_id = $1 AND t.account_id = $1 AND t.cluster_id = c.id{origins}"
    )
}

fn origins(rule: &Rule) -> String {
    let origins = rule.origins.map(|origins| format!(" AND t.origin IN ('{}')", origins.join("', '")));
    origins.unwrap_or_default()
}
