//! The reference on PostgreSQL: one statement per table and transaction for any number of rows, with
//! arrays as parameters.

use std::time::Instant;

use futures::future::try_join_all;
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _, PgConnection, Postgres, Row as _,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use uuid::Uuid;

use super::{Batch, Column, Conflict, Content, Reference, TABLES, Table, Value};
use crate::database::Result;

pub(crate) async fn read(url: &str) -> Result<Vec<Content>> {
    let mut database = PgConnection::connect(url).await?;
    let mut contents = Vec::new();
    for table in &TABLES {
        let columns = read_columns(&mut database, table).await?;
        let names: Vec<String> = columns
            .iter()
            .map(|column| match column.sql_type.as_str() {
                "json" | "jsonb" => format!("{}::text", column.name),
                "integer" => format!("{}::bigint", column.name),
                _ => column.name.clone(),
            })
            .collect();
        let select = format!("SELECT {} FROM {}", names.join(", "), table.name);
        let rows = sqlx::query(AssertSqlSafe(select)).fetch_all(&mut database).await?;
        let rows = rows.iter().map(|row| read_values(row, &columns)).collect::<Result<_>>()?;
        let key = "SELECT a.attname::text FROM pg_index i \
                   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) \
                   WHERE i.indrelid = $1::regclass AND i.indisprimary";
        let key = sqlx::query(key).bind(table.name).fetch_all(&mut database).await?;
        let primary_key = key.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
        contents.push(Content { table, columns, primary_key, rows });
    }
    Ok(contents)
}

async fn read_columns(database: &mut PgConnection, table: &Table) -> Result<Vec<Column>> {
    let select = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute \
                  WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    let rows = sqlx::query(select).bind(table.name).fetch_all(database).await?;
    rows.iter().map(|row| Ok(Column { name: row.try_get(0)?, sql_type: row.try_get(1)? })).collect()
}

fn read_values(row: &PgRow, columns: &[Column]) -> Result<Vec<Value>> {
    let value = |(i, column): (usize, &Column)| {
        let value = match column.sql_type.as_str() {
            "uuid" => row.try_get::<Option<Uuid>, _>(i)?.map(Value::Uuid),
            "bigint" | "integer" => row.try_get::<Option<i64>, _>(i)?.map(Value::Int),
            "double precision" => row.try_get::<Option<f64>, _>(i)?.map(Value::Real),
            "boolean" => row.try_get::<Option<bool>, _>(i)?.map(Value::Bool),
            "bytea" => row.try_get::<Option<Vec<u8>>, _>(i)?.map(Value::Blob),
            _ => row.try_get::<Option<String>, _>(i)?.map(Value::Text),
        };
        Ok(value.unwrap_or(Value::Null))
    };
    columns.iter().enumerate().map(value).collect()
}

/// The rows of one table, as one array per column.
struct Arrays<'a> {
    statement: &'a str,
    columns: Vec<Array>,
}

enum Array {
    Uuid(Vec<Option<Uuid>>),
    Int(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Bool(Vec<Option<bool>>),
    Blob(Vec<Option<Vec<u8>>>),
    Text(Vec<Option<String>>),
}

impl Array {
    fn from_values(column: &Column, values: impl Iterator<Item = Value>) -> Self {
        macro_rules! collect {
            ($kind:ident) => {
                Self::$kind(
                    values
                        .map(|value| if let Value::$kind(value) = value { Some(value) } else { None })
                        .collect(),
                )
            };
        }
        match column.sql_type.as_str() {
            "uuid" => collect!(Uuid),
            "bigint" | "integer" => collect!(Int),
            "double precision" => collect!(Real),
            "boolean" => collect!(Bool),
            "bytea" => collect!(Blob),
            _ => collect!(Text),
        }
    }

    fn bind<'a>(&'a self, query: Query<'a, Postgres, PgArguments>) -> Query<'a, Postgres, PgArguments> {
        match self {
            Self::Uuid(values) => query.bind(values),
            Self::Int(values) => query.bind(values),
            Self::Real(values) => query.bind(values),
            Self::Bool(values) => query.bind(values),
            Self::Blob(values) => query.bind(values),
            Self::Text(values) => query.bind(values),
        }
    }
}

fn insert_statement(content: &Content) -> String {
    let names: Vec<&str> = content.columns.iter().map(|column| column.name.as_str()).collect();
    let array = |(i, column): (usize, &Column)| {
        let element = match column.sql_type.as_str() {
            "json" | "jsonb" => "text",
            "integer" => "bigint",
            other => other,
        };
        format!("${}::{element}[]", i + 1)
    };
    let cast = |column: &Column| match column.sql_type.as_str() {
        "json" | "jsonb" | "integer" => format!("{}::{}", column.name, column.sql_type),
        _ => column.name.clone(),
    };
    let arrays: Vec<String> = content.columns.iter().enumerate().map(array).collect();
    let selected: Vec<String> = content.columns.iter().map(cast).collect();
    format!(
        "INSERT INTO {table} ({names}) SELECT {selected} FROM UNNEST({arrays}) AS new ({names}) \
         ON CONFLICT ({key}) {action}",
        table = content.table.name,
        names = names.join(", "),
        selected = selected.join(", "),
        arrays = arrays.join(", "),
        key = content.primary_key.join(", "),
        action = content.on_conflict(),
    )
}

impl Content {
    /// Returns the conflict clause, which is the same in both dialects.
    pub(super) fn on_conflict(&self) -> String {
        if self.table.conflict == Conflict::First {
            return "DO NOTHING".to_owned();
        }
        let updated_columns = self.columns.iter().filter(|column| !self.primary_key.contains(&column.name));
        let set: Vec<String> =
            updated_columns.map(|Column { name, .. }| format!("{name} = excluded.{name}")).collect();
        let update = format!("DO UPDATE SET {}", set.join(", "));
        match self.table.conflict {
            Conflict::Newest => {
                format!("{update} WHERE excluded.sequence > {}.sequence", self.table.name)
            }
            _ => update,
        }
    }
}

pub(crate) async fn write(reference: &Reference, url: &str, connections: usize) -> Result<f64> {
    let statements: Vec<String> = reference.contents.iter().map(insert_statement).collect();
    let prepare = |batch: &Batch| -> Vec<Arrays<'_>> {
        let arrays = |insert: &super::TableRows| {
            let columns = reference.contents[insert.content].columns.iter().enumerate();
            let column = |(i, column): (usize, &Column)| {
                Array::from_values(column, insert.rows.iter().map(|row: &Vec<Value>| row[i].clone()))
            };
            Arrays { statement: &statements[insert.content], columns: columns.map(column).collect() }
        };
        batch.inserts.iter().map(arrays).collect()
    };
    let mut shares: Vec<Vec<Vec<Arrays<'_>>>> = (0..connections).map(|_| Vec::new()).collect();
    for batch in &reference.batches {
        shares[batch.cluster % connections].push(prepare(batch));
    }
    let connect = shares.iter().map(|_| PgConnection::connect(url));
    let databases = try_join_all(connect).await?;
    let started_at = Instant::now();
    let write = async |(mut database, share): (PgConnection, &Vec<Vec<Arrays<'_>>>)| -> sqlx::Result<()> {
        for batch in share {
            let mut transaction = database.begin().await?;
            for arrays in batch {
                let query = sqlx::query(AssertSqlSafe(arrays.statement));
                let query = arrays.columns.iter().fold(query, |query, column| column.bind(query));
                transaction.execute(query).await?;
            }
            transaction.commit().await?;
        }
        Ok(())
    };
    try_join_all(databases.into_iter().zip(&shares).map(write)).await?;
    Ok(started_at.elapsed().as_secs_f64())
}
