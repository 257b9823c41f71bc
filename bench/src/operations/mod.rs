//! Read operations of people and programs: the server against hand-written statements and
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
mod statements;

use crate::database::{Databases, Result, Store};

#[derive(clap::Args)]
pub(crate) struct Options {
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

impl Options {
    /// Returns true if the operation with this name is to be measured.
    fn includes(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    let databases = Databases::prepare(Store::Postgres).await?;
    postgres::run(&databases, options).await
}

/// Returns an error unless a side has found as many rows as the statement for every request, and any at all.
fn check_rows(name: &str, side: &str, rows: &[usize], expected_rows: &[usize]) -> Result<()> {
    if rows != expected_rows || rows.contains(&0) {
        return Err(format!("{name}: {side} returned {rows:?} rows, the statement {expected_rows:?}").into());
    }
    Ok(())
}
