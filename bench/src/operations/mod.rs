//! Read operations of people and programs: the server on both stores, against hand-written statements and
//! other ways to get the same data.

mod bare;
mod data;
mod measurement;
mod model;
mod postgraphile;
mod postgres;
mod queries;
mod requests;
mod rounds;
mod sqlite;
mod statements;

use clap::ValueEnum;

use crate::database::{Databases, Result, Store};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Stores of the measured servers. The data is always made on PostgreSQL.
    #[arg(long, value_enum, default_value_t = Stores::Both)]
    store: Stores,
    /// Factor between the lengths of the two histories on PostgreSQL.
    #[arg(long, default_value_t = 10)]
    scale: i64,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of one operation per side and round, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Number of concurrent requests or statements, and of connections to PostgreSQL.
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// Run only operations with this text in their name.
    #[arg(long)]
    only: Option<String>,
}

/// The stores to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stores {
    Postgres,
    Sqlite,
    Both,
}

impl Options {
    /// Returns true if the operation with this name is to be measured.
    fn includes(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    let databases = Databases::prepare(Store::Postgres).await?;
    if options.store != Stores::Sqlite {
        postgres::run(&databases, options).await?;
    }
    if options.store != Stores::Postgres {
        sqlite::run(&databases, options).await?;
    }
    Ok(())
}

/// Returns an error unless a side has found as many rows as the statement for every request, and any at all.
fn check_rows(name: &str, side: &str, rows: &[usize], expected_rows: &[usize]) -> Result<()> {
    if rows != expected_rows || rows.contains(&0) {
        return Err(format!("{name}: {side} returned {rows:?} rows, the statement {expected_rows:?}").into());
    }
    Ok(())
}
