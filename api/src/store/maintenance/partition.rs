//! PostgreSQL partitions: one per week, created ahead of time and dropped as a whole. SQLite has none.

use chrono::DateTime;
use sea_orm::{ConnectionTrait, DatabaseBackend, Statement, TransactionTrait};

use crate::{
    domain::retention::week,
    store::core::{error::StoreError, system::SystemStore},
};

/// The partitioned tables, each with its partition column.
pub const PARTITIONED: [(&str, &str); 6] = [
    ("worker_sample_chunks", "started_at"),
    ("cluster_sample_chunks", "started_at"),
    ("function_activity_chunks", "started_at"),
    ("profiles", "started_at"),
    ("events", "occurred_at"),
    ("log_lines", "logged_at"),
];

impl SystemStore {
    /// Returns true if the database supports partitions.
    #[must_use]
    pub fn has_partitions(&self) -> bool {
        self.pools.writer.get_database_backend() == DatabaseBackend::Postgres
    }

    /// Returns the starts of the weeks that a table has partitions for, in milliseconds since the epoch.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn partitions(&self, table: &str) -> Result<Vec<i64>, StoreError> {
        let sql = "SELECT partition.relname::text FROM pg_inherits \
                   JOIN pg_class partition ON partition.oid = inhrelid \
                   JOIN pg_class parent ON parent.oid = inhparent \
                   JOIN pg_namespace schema ON schema.oid = parent.relnamespace \
                   WHERE parent.relname = $1 AND schema.nspname = current_schema() ORDER BY 1";
        let statement = Statement::from_sql_and_values(DatabaseBackend::Postgres, sql, [table.into()]);
        let rows = self.pools.reader.query_all_raw(statement).await?;
        let names: Vec<String> = rows.iter().map(|row| row.try_get_by_index(0)).collect::<Result<_, _>>()?;
        Ok(names.iter().filter_map(|name| week_of(table, name)).collect())
    }

    /// Creates the partition of a week and moves the rows there that arrived before it existed. Returns
    /// the number of moved rows.
    ///
    /// # Errors
    /// Returns [`StoreError::Unavailable`] if other writers hold their locks for too long. The caller
    /// may retry later.
    pub async fn make_partition(&self, table: &str, column: &str, start: i64) -> Result<u64, StoreError> {
        let (name, end) = (name_of(table, start), start + week::LENGTH);
        let range = format!("{column} >= {start} AND {column} < {end}");
        let transaction = self.pools.writer.begin().await?;
        for statement in [
            // A statement that waits for a lock blocks all statements queued behind it.
            "SET LOCAL lock_timeout = '2s'".to_owned(),
            // The locks are taken in the order in which a report takes them, so that the two cannot
            // deadlock. Attaching would take both in the opposite order.
            "LOCK TABLE clusters IN SHARE ROW EXCLUSIVE MODE".to_owned(),
            // With the lock of the default partition alone, a statement that is planned meanwhile would
            // wait, and then find the moved rows in no partition that it knows.
            format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"),
            format!("CREATE TABLE {name} (LIKE {table} INCLUDING ALL)"),
        ] {
            transaction.execute_unprepared(&statement).await?;
        }
        let move_rows = format!(
            "WITH moved AS (DELETE FROM {table}_default WHERE {range} RETURNING *) \
             INSERT INTO {name} SELECT * FROM moved"
        );
        let row_count = transaction.execute_unprepared(&move_rows).await?.rows_affected();
        let attach =
            format!("ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})");
        transaction.execute_unprepared(&attach).await?;
        transaction.commit().await?;
        Ok(row_count)
    }

    /// Drops the partition of a week with all its rows.
    ///
    /// # Errors
    /// Returns [`StoreError::Unavailable`] if users of the table hold their locks for too long. The
    /// caller may retry later.
    pub async fn drop_partition(&self, table: &str, start: i64) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin().await?;
        for statement in [
            "SET LOCAL lock_timeout = '2s'".to_owned(),
            // Dropping takes these locks too, in the opposite order to a report.
            "LOCK TABLE clusters IN ACCESS EXCLUSIVE MODE".to_owned(),
            format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"),
            format!("DROP TABLE IF EXISTS {}", name_of(table, start)),
        ] {
            transaction.execute_unprepared(&statement).await?;
        }
        Ok(transaction.commit().await?)
    }
}

/// Returns the name of a week's partition, which contains the date of its Monday.
fn name_of(table: &str, start: i64) -> String {
    let monday = DateTime::from_timestamp_millis(start).expect("weeks lie around the present");
    format!("{table}_w{}", monday.format("%Y%m%d"))
}

fn week_of(table: &str, name: &str) -> Option<i64> {
    let date = name.strip_prefix(table)?.strip_prefix("_w")?;
    let date = chrono::NaiveDate::parse_from_str(date, "%Y%m%d").ok()?;
    Some(date.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_week() {
        let start = week::start(1_795_172_400_000);
        assert_eq!(name_of("events", start), "events_w20261116");
        assert_eq!(week_of("events", "events_w20261116"), Some(start));
        assert_eq!(week_of("events", "events_default"), None);
    }
}
