//! Helpers for tenant tables.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{DatabaseBackend, Statement},
};

use crate::placement::{Placement, create, distribute};

/// Creates a table whose rows are placed with the other rows of their account.
pub(crate) async fn create_table(
    manager: &SchemaManager<'_>,
    table: TableCreateStatement,
) -> Result<(), DbErr> {
    create(manager, table, Placement::WithAccount).await
}

/// Ties a table's rows to a cluster of the same account. Deleting the cluster deletes them.
pub(crate) fn belongs_to_cluster(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .name(format!("{table}_cluster_fkey"))
        .from_tbl(table)
        .from_col("account_id")
        .from_col("cluster_id")
        .to_tbl("clusters")
        .to_col("account_id")
        .to_col("id")
        .on_delete(ForeignKeyAction::Cascade)
        .take()
}

/// Ties a table's rows to their account. Deleting the account deletes them.
pub(crate) fn belongs_to_account(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .name(format!("{table}_account_fkey"))
        .from_tbl(table)
        .from_col("account_id")
        .to_tbl("accounts")
        .to_col("id")
        .on_delete(ForeignKeyAction::Cascade)
        .take()
}

/// Returns a text column that accepts only these values.
pub(crate) fn one_of(column: &'static str, values: &[&'static str]) -> ColumnDef {
    ColumnDef::new(column).text().not_null().check(Expr::col(column).is_in(values.iter().copied())).take()
}

/// Returns a text column that accepts only these values, or null.
pub(crate) fn one_of_null(column: &'static str, values: &[&'static str]) -> ColumnDef {
    ColumnDef::new(column).text().null().check(Expr::col(column).is_in(values.iter().copied())).take()
}

/// Adds a column without nulls to a table. Existing rows get `value`. The column has no default
/// afterwards, because later inserts specify every value.
pub(crate) async fn add_column(
    manager: &SchemaManager<'_>,
    table: &'static str,
    mut column: ColumnDef,
    value: &str,
) -> Result<(), DbErr> {
    let name = column.get_column_name();
    let column = column.default(Expr::cust(value.to_owned())).take();
    let database = manager.get_connection();
    if manager.get_database_backend() == DatabaseBackend::Postgres {
        for statement in additions(table, &column)? {
            database.execute_unprepared(&statement).await?;
        }
        let drop = format!("ALTER TABLE {table} ALTER COLUMN {name} DROP DEFAULT");
        database.execute_unprepared(&drop).await?;
        return Ok(());
    }
    manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
    // SQLite takes the values of existing rows from the default until the rows are written.
    database.execute_unprepared(&format!("UPDATE {table} SET {name} = {name}")).await?;
    replace_in_definition(manager, table, &format!(" DEFAULT ({value})"), "").await
}

/// Returns the statements that add a column to a table of PostgreSQL. Citus accepts no constraint with a
/// new column, so a check has a statement of its own, under the name that PostgreSQL would generate.
fn additions(table: &'static str, column: &ColumnDef) -> Result<Vec<String>, DbErr> {
    let add = |column: ColumnDef| {
        Table::alter().table(table).add_column(column).take().to_string(PostgresQueryBuilder)
    };
    let (name, spec) = (column.get_column_name(), column.get_column_spec());
    let mut bare_column = ColumnDef::new(name.clone());
    if let Some(column_type) = column.get_column_type() {
        bare_column = ColumnDef::new_with_type(name.clone(), column_type.clone());
    }
    if spec.nullable == Some(false) {
        bare_column.not_null();
    }
    if let Some(default) = &spec.default {
        bare_column.default(default.clone());
    }
    let (statement, bare_statement) = (add(column.clone()), add(bare_column));
    let constraint = format!("{table}_{name}_check");
    match statement.strip_prefix(&bare_statement).map(str::trim) {
        Some("") => Ok(vec![bare_statement]),
        // PostgreSQL truncates longer names.
        Some(check) if check.starts_with("CHECK ") && constraint.len() < 64 => {
            Ok(vec![bare_statement, format!("ALTER TABLE {table} ADD CONSTRAINT {constraint} {check}")])
        }
        _ => Err(DbErr::Migration(format!("more than a check comes with the column {table}.{name}"))),
    }
}

/// Returns true if a table has rows. Citus rejects some statements that update existing rows, even if
/// there are none; a database on Citus has none at this point.
pub(crate) async fn has_rows(manager: &SchemaManager<'_>, table: &'static str) -> Result<bool, DbErr> {
    let statement =
        Statement::from_string(manager.get_database_backend(), format!("SELECT 1 FROM {table} LIMIT 1"));
    Ok(manager.get_connection().query_one_raw(statement).await?.is_some())
}

/// Changes the values that a text column accepts. All rows must already have one of the new values.
pub(crate) async fn change_allowed_values(
    manager: &SchemaManager<'_>,
    (table, column): (&'static str, &'static str),
    before: &[&str],
    after: &[&str],
) -> Result<(), DbErr> {
    let list = |values: &[&str]| {
        let quoted: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
        format!("({})", quoted.join(", "))
    };
    if manager.get_database_backend() != DatabaseBackend::Postgres {
        return replace_in_definition(manager, table, &list(before), &list(after)).await;
    }
    let constraint = format!("{table}_{column}_check");
    for statement in [
        format!("ALTER TABLE {table} DROP CONSTRAINT {constraint}"),
        format!("ALTER TABLE {table} ADD CONSTRAINT {constraint} CHECK ({column} IN {})", list(after)),
    ] {
        manager.get_connection().execute_unprepared(&statement).await?;
    }
    Ok(())
}

/// Edits the definition of a table of SQLite, which has no statement for changing defaults and checks.
/// Recreating the table would delete the rows of all tables that refer to it. SQLite's manual describes
/// this procedure for both cases.
async fn replace_in_definition(
    manager: &SchemaManager<'_>,
    table: &str,
    from: &str,
    to: &str,
) -> Result<(), DbErr> {
    let database = manager.get_connection();
    let read_version = Statement::from_string(DatabaseBackend::Sqlite, "PRAGMA schema_version");
    let version: i64 = database
        .query_one_raw(read_version)
        .await?
        .ok_or_else(|| DbErr::Migration("the database tells no schema version".to_owned()))?
        .try_get_by_index(0)?;
    let escape_quotes = |text: &str| text.replace('\'', "''");
    for statement in [
        "PRAGMA writable_schema = ON".to_owned(),
        format!(
            "UPDATE sqlite_schema SET sql = replace(sql, '{}', '{}') WHERE type = 'table' AND name = '{table}'",
            escape_quotes(from),
            escape_quotes(to)
        ),
        // Makes other connections read the schema again.
        format!("PRAGMA schema_version = {}", version + 1),
        "PRAGMA writable_schema = RESET".to_owned(),
    ] {
        database.execute_unprepared(&statement).await?;
    }
    Ok(())
}

/// Creates a table whose rows expire by age. On PostgreSQL it is partitioned by ranges of `column`. The
/// server creates the partitions ahead of time; the default partition takes rows that fit none of them.
pub(crate) async fn create_partitioned(
    manager: &SchemaManager<'_>,
    table: TableCreateStatement,
    name: &str,
    column: &str,
) -> Result<(), DbErr> {
    if manager.get_database_backend() != DatabaseBackend::Postgres {
        return create_table(manager, table).await;
    }
    let create = format!("{} PARTITION BY RANGE ({column})", table.to_string(PostgresQueryBuilder));
    let database = manager.get_connection();
    database.execute_unprepared(&create).await?;
    let create_default = format!("CREATE TABLE {name}_default PARTITION OF {name} DEFAULT");
    database.execute_unprepared(&create_default).await?;
    distribute(manager, name, Placement::WithAccount).await
}
