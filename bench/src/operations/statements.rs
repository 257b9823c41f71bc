//! Hand-written statements on PostgreSQL: rows that are read and written as JSON, and JSON by the database.

use std::{fmt::Write as _, sync::Arc, time::Instant};

use futures::future::try_join_all;
use serde_json::Value;
use sqlx::{
    AssertSqlSafe, Column as _, Connection as _, PgConnection, Postgres, Row as _, TypeInfo as _,
    postgres::{PgArguments, PgRow},
    query::Query,
};

use super::{
    Options,
    measurement::{Measurement, run_workers},
    queries::{Bind, Operation},
};
use crate::database::Result;

/// The statements of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    /// Its rows are read, and written as JSON by this process.
    Rows,
    /// Its single value is JSON.
    Json,
}

impl Statement {
    /// Runs the statement on all connections.
    pub(super) async fn measure(
        self,
        url: &str,
        operation: &Arc<Operation>,
        options: &Options,
    ) -> Result<Measurement> {
        let connect = (0..options.connections).map(|_| PgConnection::connect(url));
        let mut databases = try_join_all(connect).await?;
        let mut processes = Vec::new();
        for database in &mut databases {
            processes.push(backend(database).await?);
        }
        let workers = databases.into_iter().enumerate().map(|(worker, mut database)| {
            let operation = Arc::clone(operation);
            async move |deadline: Instant| -> Result<(usize, Option<PgConnection>)> {
                let mut completed = 0;
                while Instant::now() < deadline {
                    let index = completed + 17 * worker;
                    match self {
                        Self::Rows => {
                            let rows = fetch(&mut database, &operation, index).await?;
                            std::hint::black_box(to_json(&rows));
                        }
                        Self::Json => {
                            std::hint::black_box(fetch_json(&mut database, &operation, index).await?);
                        }
                    }
                    completed += 1;
                }
                Ok((completed, Some(database)))
            }
        });
        run_workers(options.seconds, workers, &processes).await
    }
}

/// Returns the database process of a connection.
pub(super) async fn backend(database: &mut PgConnection) -> Result<u32> {
    let process: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(database).await?;
    Ok(process.unsigned_abs())
}

/// Returns the database processes of all connections with this application name.
pub(super) async fn backends(url: &str, application_name: &str) -> Result<Vec<u32>> {
    let mut database = PgConnection::connect(url).await?;
    let select =
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1";
    let processes: Vec<i32> =
        sqlx::query_scalar(select).bind(application_name).fetch_all(&mut database).await?;
    Ok(processes.into_iter().map(i32::unsigned_abs).collect())
}

/// Runs the operation's statement, which stays prepared, and returns its rows.
pub(super) async fn fetch(
    database: &mut PgConnection,
    operation: &Operation,
    index: usize,
) -> Result<Vec<PgRow>> {
    Ok(prepare(&operation.statement, operation, index).fetch_all(database).await?)
}

/// Runs the operation's statement for JSON, which stays prepared, and returns its row.
async fn fetch_json(database: &mut PgConnection, operation: &Operation, index: usize) -> Result<PgRow> {
    Ok(prepare(&operation.json_statement, operation, index).fetch_one(database).await?)
}

/// Returns the number of rows in the JSON by the database, for each request.
pub(super) async fn count_json_rows(
    database: &mut PgConnection,
    operation: &Operation,
) -> Result<Vec<usize>> {
    let mut numbers = Vec::with_capacity(operation.binds.len());
    for index in 0..operation.binds.len() {
        let row = fetch_json(database, operation, index).await?;
        let json: &str = row.try_get_unchecked(0)?;
        numbers.push((operation.rows)(&serde_json::from_str::<Value>(json)?));
    }
    Ok(numbers)
}

fn prepare<'a>(statement: &'a str, operation: &Operation, index: usize) -> Query<'a, Postgres, PgArguments> {
    let query = sqlx::query(AssertSqlSafe(statement));
    let binds = operation.binds[index % operation.binds.len()].iter();
    binds.fold(query, |query, bind| match bind {
        Bind::Uuid(value) => query.bind(*value),
        Bind::Int(value) => query.bind(*value),
    })
}

/// Writes the rows as JSON.
pub(super) fn to_json(rows: &[PgRow]) -> String {
    #[derive(Clone, Copy)]
    enum Kind {
        Int,
        Real,
        Uuid,
        Text,
    }
    let Some(first) = rows.first() else { return "[]".to_owned() };
    let kind = |name: &str| match name {
        "INT8" => Kind::Int,
        "FLOAT8" => Kind::Real,
        "UUID" => Kind::Uuid,
        _ => Kind::Text,
    };
    let columns: Vec<_> =
        first.columns().iter().map(|column| (column.name(), kind(column.type_info().name()))).collect();
    let mut json = String::with_capacity(16 * columns.len() * rows.len());
    for row in rows {
        json.push(if json.is_empty() { '[' } else { ',' });
        for (i, (name, kind)) in columns.iter().enumerate() {
            let _ = write!(json, "{}\"{name}\":", if i == 0 { '{' } else { ',' });
            let result = match kind {
                Kind::Int => row.get::<Option<i64>, _>(i).map(|value| write!(json, "{value}")),
                Kind::Real => row.get::<Option<f64>, _>(i).map(|value| write!(json, "{value}")),
                Kind::Uuid => row.get::<Option<uuid::Uuid>, _>(i).map(|value| write!(json, "\"{value}\"")),
                Kind::Text => row.get::<Option<&str>, _>(i).map(|value| {
                    json.push_str(&serde_json::to_string(value).unwrap_or_default());
                    Ok(())
                }),
            };
            if result.is_none() {
                json.push_str("null");
            }
        }
        json.push('}');
    }
    json.push(']');
    json
}
