//! Copies of an SQLite store, made while it is in use.
//!
//! `VACUUM INTO` reads the whole store in one transaction. The copy is therefore a snapshot of one moment,
//! and writers continue meanwhile. SQLite's own backup API restarts whenever another process writes, which
//! a server does all the time.

use std::path::Path;

use migration::{Migrator, MigratorTrait};
use sea_orm::{ConnectionTrait, DatabaseBackend, SqlxSqliteConnector, Statement};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use crate::store::core::{
    connect::{sqlite, unreachable_database},
    error::StoreError,
};

/// Writes a copy into an empty file.
///
/// # Errors
/// Returns an error if the store cannot be read or the file cannot be written. The file must not be used
/// then.
pub(crate) async fn copy_sqlite_store(store: &SqliteConnectOptions, target: &str) -> Result<(), StoreError> {
    let pool = sqlite(&store.clone().create_if_missing(false).read_only(true), 1).await?;
    let database = SqlxSqliteConnector::from_sqlx_sqlite_pool(pool);
    let copy = Statement::from_sql_and_values(DatabaseBackend::Sqlite, "VACUUM INTO ?", [target.into()]);
    database.execute_raw(copy).await?;
    database.close().await?;
    Ok(())
}

/// Returns the fault of a file that should be a store. `None` if there is none.
///
/// # Errors
/// Returns an error if the file cannot be read at all.
pub(crate) async fn find_file_fault(file: &Path) -> Result<Option<String>, StoreError> {
    // No process changes the file, and SQLite creates no files beside it.
    let options = SqliteConnectOptions::new().filename(file).read_only(true).immutable(true);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await;
    let database = SqlxSqliteConnector::from_sqlx_sqlite_pool(pool.map_err(unreachable_database)?);
    let query_one =
        async |sql: &str| database.query_one_raw(Statement::from_string(DatabaseBackend::Sqlite, sql)).await;
    let integrity = match query_one("PRAGMA integrity_check(1)").await? {
        Some(row) => row.try_get_by_index::<String>(0)?,
        None => "nothing".to_owned(),
    };
    let fault = if integrity != "ok" {
        Some(integrity)
    } else if query_one("PRAGMA foreign_key_check").await?.is_some() {
        Some("a row refers to one that is not there".to_owned())
    } else if Migrator::get_applied_migrations_read_only(&database).await?.is_empty() {
        Some("it is no store of Galvo".to_owned())
    } else {
        None
    };
    database.close().await?;
    Ok(fault)
}
