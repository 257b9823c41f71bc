//! Where rows lie. One database has them all; Citus spreads them over machines when it is told how, which has to be before
//! another table refers to them.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{
        DatabaseBackend, Statement,
        sea_query::{TableName, TableRef},
    },
};

/// Where a table's rows lie if there are several machines.
#[derive(Clone, Copy)]
pub(crate) enum Placement {
    /// With all else of their account.
    WithAccount,
    /// A copy on each machine.
    Everywhere,
}

/// Makes a table and says where its rows lie.
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

/// Says where a table's rows lie.
pub(crate) async fn distribute(
    manager: &SchemaManager<'_>,
    table: &str,
    placement: Placement,
) -> Result<(), DbErr> {
    if !is_distributed(manager).await? {
        return Ok(());
    }
    // What belongs to one account lies on one machine, whichever table it is in, so that it can refer to each other.
    let statement = match placement {
        Placement::WithAccount if table == "clusters" => {
            "SELECT create_distributed_table('clusters', 'account_id', colocate_with => 'none')".to_owned()
        }
        Placement::WithAccount => {
            format!("SELECT create_distributed_table('{table}', 'account_id', colocate_with => 'clusters')")
        }
        Placement::Everywhere => format!("SELECT create_reference_table('{table}')"),
    };
    manager.get_connection().execute_unprepared(&statement).await?;
    Ok(())
}

/// Whether the database spreads tables over machines.
async fn is_distributed(manager: &SchemaManager<'_>) -> Result<bool, DbErr> {
    if manager.get_database_backend() != DatabaseBackend::Postgres {
        return Ok(false);
    }
    let there = Statement::from_string(
        DatabaseBackend::Postgres,
        "SELECT to_regproc('create_distributed_table') IS NOT NULL",
    );
    let there = manager.get_connection().query_one_raw(there).await?;
    there.map_or(Ok(false), |there| there.try_get_by_index(0))
}
