//! The shapes every tenant table shares.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{DatabaseBackend, Statement},
};

/// Ties a table's rows to a cluster of the same account, and lets them go with it.
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

/// Ties a table's rows to their account, and lets them go with it.
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

/// A text column that takes one of a few words.
pub(crate) fn one_of(column: &'static str, words: &[&'static str]) -> ColumnDef {
    ColumnDef::new(column).text().not_null().check(Expr::col(column).is_in(words.iter().copied())).take()
}

/// A text column that takes one of a few words, or nothing.
pub(crate) fn one_of_null(column: &'static str, words: &[&'static str]) -> ColumnDef {
    ColumnDef::new(column).text().null().check(Expr::col(column).is_in(words.iter().copied())).take()
}

/// Adds a column that is never null to a table that may have rows, which get `value`. No default stays behind: what
/// is written later says every value itself.
pub(crate) async fn add_column(
    manager: &SchemaManager<'_>,
    table: &'static str,
    mut column: ColumnDef,
    value: &str,
) -> Result<(), DbErr> {
    let name = column.get_column_name();
    let column = column.default(Expr::cust(value.to_owned())).take();
    manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
    let database = manager.get_connection();
    if manager.get_database_backend() == DatabaseBackend::Postgres {
        let drop = format!("ALTER TABLE {table} ALTER COLUMN {name} DROP DEFAULT");
        database.execute_unprepared(&drop).await?;
        return Ok(());
    }
    // SQLite has no statement for it, and making the table anew would take the rows of all tables that refer to it
    // along. Changing its text is the procedure its manual gives for defaults. Rows that were there before get the
    // value from the default until they are written, hence the update.
    let version = Statement::from_string(DatabaseBackend::Sqlite, "PRAGMA schema_version");
    let version: i64 = database
        .query_one_raw(version)
        .await?
        .ok_or_else(|| DbErr::Migration("the database tells no schema version".to_owned()))?
        .try_get_by_index(0)?;
    for statement in [
        format!("UPDATE {table} SET {name} = {name}"),
        "PRAGMA writable_schema = ON".to_owned(),
        format!(
            "UPDATE sqlite_schema SET sql = replace(sql, ' DEFAULT ({})', '') WHERE type = 'table' AND name = '{table}'",
            value.replace('\'', "''")
        ),
        // Other connections have to read the schema again, too.
        format!("PRAGMA schema_version = {}", version + 1),
        "PRAGMA writable_schema = RESET".to_owned(),
    ] {
        database.execute_unprepared(&statement).await?;
    }
    Ok(())
}

/// Makes a table whose rows go by age. On PostgreSQL it has one partition per range of `column`, which the
/// server makes ahead of time; the default partition takes what lies in none of them.
pub(crate) async fn create_partitioned(
    manager: &SchemaManager<'_>,
    table: TableCreateStatement,
    name: &str,
    column: &str,
) -> Result<(), DbErr> {
    if manager.get_database_backend() != DatabaseBackend::Postgres {
        return manager.create_table(table).await;
    }
    let create = format!("{} PARTITION BY RANGE ({column})", table.to_string(PostgresQueryBuilder));
    let database = manager.get_connection();
    database.execute_unprepared(&create).await?;
    let rest = format!("CREATE TABLE {name}_default PARTITION OF {name} DEFAULT");
    database.execute_unprepared(&rest).await?;
    Ok(())
}
