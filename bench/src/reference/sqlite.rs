//! The reference on SQLite: prepared statements, one transaction per report, one connection.

use std::{str::FromStr as _, time::Instant};

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _, SqliteConnection,
    TypeInfo as _, ValueRef as _,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous},
};

use super::{Column, Content, Reference, TABLES, Value};
use crate::database::Result;

/// Opens the database with the server's options.
async fn open(url: &str) -> Result<SqliteConnection> {
    let options = SqliteConnectOptions::from_str(url)?
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .pragma("cache_size", "-65536")
        .pragma("mmap_size", "268435456")
        .pragma("temp_store", "memory")
        .disable_statement_logging();
    Ok(options.connect().await?)
}

pub(crate) async fn read(url: &str) -> Result<Vec<Content>> {
    let mut database = open(url).await?;
    let mut contents = Vec::new();
    for table in &TABLES {
        let info = format!("SELECT name, type, pk FROM pragma_table_info('{}') ORDER BY cid", table.name);
        let info = sqlx::query(AssertSqlSafe(info)).fetch_all(&mut database).await?;
        let (mut columns, mut primary_key) = (Vec::new(), Vec::new());
        for row in &info {
            let column = Column { name: row.try_get(0)?, sql_type: row.try_get(1)? };
            if row.try_get::<i64, _>(2)? > 0 {
                primary_key.push(column.name.clone());
            }
            columns.push(column);
        }
        let select = format!("SELECT * FROM {}", table.name);
        let rows = sqlx::query(AssertSqlSafe(select)).fetch_all(&mut database).await?;
        let rows = rows.iter().map(|row| read_values(row, columns.len())).collect::<Result<_>>()?;
        contents.push(Content { table, columns, primary_key, rows });
    }
    database.close().await?;
    Ok(contents)
}

fn read_values(row: &SqliteRow, columns: usize) -> Result<Vec<Value>> {
    let value = |i: usize| {
        let raw = row.try_get_raw(i)?;
        if raw.is_null() {
            return Ok(Value::Null);
        }
        // The stored type counts, regardless of the column's declared type.
        Ok(match raw.type_info().name() {
            "INTEGER" | "BOOLEAN" => Value::Int(row.try_get_unchecked(i)?),
            "REAL" => Value::Real(row.try_get_unchecked(i)?),
            "BLOB" => Value::Blob(row.try_get_unchecked(i)?),
            _ => Value::Text(row.try_get_unchecked(i)?),
        })
    };
    (0..columns).map(value).collect()
}

fn insert_statement(content: &Content) -> String {
    let names: Vec<&str> = content.columns.iter().map(|column| column.name.as_str()).collect();
    format!(
        "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) {}",
        content.table.name,
        names.join(", "),
        vec!["?"; names.len()].join(", "),
        content.primary_key.join(", "),
        content.on_conflict(),
    )
}

pub(crate) async fn write(reference: &Reference, url: &str) -> Result<f64> {
    let statements: Vec<String> = reference.contents.iter().map(insert_statement).collect();
    let mut database = open(url).await?;
    let started_at = Instant::now();
    for batch in &reference.batches {
        let mut transaction = database.begin_with("BEGIN IMMEDIATE").await?;
        for insert in &batch.inserts {
            for row in &insert.rows {
                let mut query = sqlx::query(AssertSqlSafe(statements[insert.content].as_str()));
                for value in row {
                    query = match value {
                        Value::Null => query.bind(None::<i64>),
                        Value::Bool(value) => query.bind(*value),
                        Value::Int(value) => query.bind(*value),
                        Value::Real(value) => query.bind(*value),
                        Value::Text(text) => query.bind(text.as_str()),
                        Value::Uuid(id) => query.bind(*id),
                        Value::Blob(bytes) => query.bind(bytes.as_slice()),
                    };
                }
                transaction.execute(query).await?;
            }
        }
        transaction.commit().await?;
    }
    let seconds = started_at.elapsed().as_secs_f64();
    database.close().await?;
    Ok(seconds)
}
