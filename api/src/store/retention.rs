//! Removing what is older than its account keeps it, a bounded number of rows at a time.

use entity::data_policy::{self, DataClass};
use sea_orm::{
    ActiveEnum, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect, Statement,
    TransactionTrait, Value,
};

use super::{connect::IMMEDIATE, error::StoreError, identity::SystemStore};
use crate::domain::retention::{Age, Rule};

/// Rows that one statement removes at the most: ingest waits for no longer than that takes.
pub const BATCH: u64 = 2_000;

/// The accounts that keep a class of data equally long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Those that do not say how long.
    Default,
    /// Those that say so many days.
    Days(i64),
}

impl Keeps {
    /// The days the accounts say.
    #[must_use]
    pub fn days(self) -> Option<i64> {
        match self {
            Self::Default => None,
            Self::Days(days) => Some(days),
        }
    }
}

impl SystemStore {
    /// How long accounts keep a class of data: all answers there are.
    ///
    /// # Errors
    /// When the database does not answer.
    #[expect(clippy::disallowed_methods, reason = "data of all accounts goes by age")]
    pub async fn retention_of(&self, class: DataClass) -> Result<Vec<Keeps>, StoreError> {
        let days: Vec<i64> = data_policy::Entity::find()
            .select_only()
            .column(data_policy::Column::RetentionDays)
            .distinct()
            .filter(data_policy::Column::DataClass.eq(class))
            .filter(data_policy::Column::RetentionDays.is_not_null())
            .into_tuple()
            .all(&self.pools.reader)
            .await?;
        Ok([Keeps::Default].into_iter().chain(days.into_iter().map(Keeps::Days)).collect())
    }

    /// Removes up to [`BATCH`] rows of these accounts that are older than `cutoff`, and tells how many.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn remove_older(&self, rule: &Rule, of: Keeps, cutoff: i64) -> Result<u64, StoreError> {
        let backend = self.pools.writer.get_database_backend();
        let values: Vec<Value> = [Some(cutoff), of.days()].into_iter().flatten().map(Value::from).collect();
        let statement = |sql: String| Statement::from_sql_and_values(backend, sql, values.clone());
        // Where readers have connections of their own, looking for what may not be there keeps no writer waiting.
        let found = statement(format!("SELECT 1 AS found {} LIMIT 1", older(rule, of)));
        if self.pools.reader.query_one_raw(found).await?.is_none() {
            return Ok(0);
        }
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        if rule.age == Age::Cluster {
            // A scheduler that reports again after so long is asked for everything it still knows, since it would
            // send only what changed. Its cluster is locked until the rows are gone.
            let forget = format!(
                "UPDATE clusters SET complete_until = -1 \
                 WHERE complete_until >= 0 AND last_seen_at < $1 AND account_id {}",
                accounts(rule, of)
            );
            transaction.execute_raw(statement(forget)).await?;
        }
        let Rule { table, .. } = rule;
        let key: Vec<&str> = [&["account_id"], rule.key].concat();
        let (columns, selected) = (key.join(", "), key.iter().map(|column| format!("t.{column}")));
        let selected = selected.collect::<Vec<_>>().join(", ");
        let delete = format!(
            "DELETE FROM {table} WHERE ({columns}) IN (SELECT {selected} {} LIMIT {BATCH}){}",
            older(rule, of),
            match rule.age {
                // Keeps PostgreSQL to the partitions that are old enough, and looks again at rows that a report
                // has changed meanwhile.
                Age::Row(column) | Age::RowOfAccount(column) => format!(" AND {table}.{column} < $1"),
                Age::Cluster => String::new(),
            }
        );
        let removed = transaction.execute_raw(statement(delete)).await?.rows_affected();
        transaction.commit().await?;
        Ok(removed)
    }
}

/// The accounts as the end of a condition, where `$2` is the days, if there are any.
fn accounts(rule: &Rule, of: Keeps) -> String {
    let class = rule.class.to_value();
    let accounts = format!("SELECT p.account_id FROM data_policies p WHERE p.data_class = '{class}'");
    match of {
        Keeps::Default => format!("NOT IN ({accounts} AND p.retention_days IS NOT NULL)"),
        Keeps::Days(_) => format!("IN ({accounts} AND p.retention_days = $2)"),
    }
}

/// The rows as a part of a statement, where `$1` is the time and `$2` the days, if there are any.
fn older(rule: &Rule, of: Keeps) -> String {
    let table = rule.table;
    let origin = rule.origin.map(|origin| format!(" AND t.origin = '{origin}'")).unwrap_or_default();
    let accounts = accounts(rule, of);
    // Cluster by cluster, because that is how primary keys begin: each is a range of one. To SQLite the words
    // `CROSS JOIN` say that the clusters come first.
    let of_clusters = format!(
        "FROM clusters c CROSS JOIN {table} t \
         WHERE t.account_id = c.account_id AND t.cluster_id = c.id AND c.account_id {accounts}{origin}"
    );
    match rule.age {
        Age::Row(column) => format!("{of_clusters} AND t.{column} < $1"),
        Age::Cluster => format!("{of_clusters} AND c.last_seen_at < $1"),
        Age::RowOfAccount(column) => {
            format!("FROM {table} t WHERE t.account_id {accounts}{origin} AND t.{column} < $1")
        }
    }
}
