//! A history of PostgreSQL, copied into a database of SQLite.

use std::path::Path;

use futures::TryStreamExt as _;
use rusqlite::{Connection, params_from_iter, types::Value};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, postgres::PgRow};
use uuid::Uuid;

use crate::database::Result;

/// The table of the reference, which the server does not have.
const FINE_METRIC_ROWS: &str = "CREATE TABLE fine_metric_rows (
      account_id BLOB NOT NULL, cluster_id INTEGER NOT NULL, span_id BLOB NOT NULL, context TEXT NOT NULL,
      function TEXT, activity TEXT NOT NULL, unit TEXT NOT NULL, value REAL NOT NULL);
    CREATE INDEX fine_metric_rows_cluster_idx ON fine_metric_rows (account_id, cluster_id)";

/// Replaces all rows in the database at `path`, which has the server's tables, with those of PostgreSQL.
pub(super) async fn copy_rows(postgres_url: &str, path: &Path) -> Result<()> {
    let mut source = PgConnection::connect(postgres_url).await?;
    let target = Connection::open(path)?;
    target.execute_batch(FINE_METRIC_ROWS)?;
    target.execute_batch("PRAGMA foreign_keys = OFF; BEGIN")?;
    for table in table_names(&target)? {
        target.execute(&format!("DELETE FROM {table}"), [])?;
        copy_table(&mut source, &target, &table).await?;
    }
    target.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
    target.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Returns the tables with data. That of the migrations has its own rows on each store.
fn table_names(target: &Connection) -> Result<Vec<String>> {
    let select = "SELECT name FROM sqlite_schema
        WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'seaql_migrations'";
    let mut statement = target.prepare(select)?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

async fn copy_table(source: &mut PgConnection, target: &Connection, table: &str) -> Result<()> {
    let columns = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute \
                   WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    let columns: Vec<(String, String)> = sqlx::query_as(columns).bind(table).fetch_all(&mut *source).await?;
    let selected: Vec<String> = columns
        .iter()
        .map(|(name, sql_type)| match sql_type.as_str() {
            "json" | "jsonb" => format!("{name}::text"),
            "integer" | "smallint" => format!("{name}::bigint"),
            _ => name.clone(),
        })
        .collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let (names, parameters) = (names.join(", "), vec!["?"; columns.len()].join(", "));
    let mut insert = target.prepare(&format!("INSERT INTO {table} ({names}) VALUES ({parameters})"))?;
    let select = format!("SELECT {} FROM {table}", selected.join(", "));
    let mut rows = sqlx::query(AssertSqlSafe(select)).fetch(source);
    while let Some(row) = rows.try_next().await? {
        let values: Vec<Value> = columns
            .iter()
            .enumerate()
            .map(|(i, (_, sql_type))| read_value(&row, i, sql_type))
            .collect::<Result<_>>()?;
        insert.execute(params_from_iter(values))?;
    }
    Ok(())
}

/// Reads a value as SQLite stores it.
fn read_value(row: &PgRow, i: usize, sql_type: &str) -> Result<Value> {
    let value = match sql_type {
        "uuid" => row.try_get::<Option<Uuid>, _>(i)?.map(|id| Value::Blob(id.as_bytes().to_vec())),
        "bigint" | "integer" | "smallint" => row.try_get::<Option<i64>, _>(i)?.map(Value::Integer),
        "double precision" => row.try_get::<Option<f64>, _>(i)?.map(Value::Real),
        "boolean" => row.try_get::<Option<bool>, _>(i)?.map(|value| Value::Integer(value.into())),
        "bytea" => row.try_get::<Option<Vec<u8>>, _>(i)?.map(Value::Blob),
        _ => row.try_get::<Option<String>, _>(i)?.map(Value::Text),
    };
    Ok(value.unwrap_or(Value::Null))
}
