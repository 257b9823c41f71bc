//! Placement of tables. A single database holds all rows. Citus distributes them over machines, which
//! must be set up before other tables refer to a table.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{
        DatabaseBackend, Statement,
        sea_query::{TableName, TableRef},
    },
};

/// The placement of a table's rows on several machines.
#[derive(Clone, Copy)]
pub(crate) enum Placement {
    /// Together with the other rows of the account.
    WithAccount,
    /// As a copy on each machine.
    ReferenceCopy,
}

/// Creates a table and sets its placement.
pub(crate) async fn create(
    manager: &SchemaManager<'_>,
    table: TableCreateStatement,
    placement: Placement,
) -> Result<(), DbErr> {
    let name = match table.get_table_name() {
        Some(TableRef::Table(TableName(_, name), _)) => name.inner(),
        _ => return Err(DbErr::Migration("a table has a name".to_owned())),
    };
    manager.create_table(table).await?;
    distribute(manager, &name, placement).await
}

/// Sets the placement of a table.
pub(crate) async fn distribute(
    manager: &SchemaManager<'_>,
    table: &str,
    placement: Placement,
) -> Result<(), DbErr> {
    if !is_distributed(manager).await? {
        return Ok(());
    }
    // All rows of an account are on one machine, so that foreign keys between its tables work.
    let statement = match placement {
        Placement::WithAccount if table == "clusters" => {
            "SELECT create_distributed_table('clusters', 'account_id', colocate_with => 'none')".to_owned()
        }
        Placement::WithAccount => {
            format!("SELECT create_distributed_table('{table}', 'account_id', colocate_with => 'clusters')")
        }
        Placement::ReferenceCopy => format!("SELECT create_reference_table('{table}')"),
    };
    manager.get_connection().execute_unprepared(&statement).await?;
    Ok(())
}

/// Returns true if the database distributes tables over machines.
async fn is_distributed(manager: &SchemaManager<'_>) -> Result<bool, DbErr> {
    if manager.get_database_backend() != DatabaseBackend::Postgres {
        return Ok(false);
    }
    let statement = Statement::from_string(
        DatabaseBackend::Postgres,
        "SELECT to_regproc('create_distributed_table') IS NOT NULL",
    );
    let row = manager.get_connection().query_one_raw(statement).await?;
    row.map_or(Ok(false), |row| row.try_get_by_index(0))
}
