//! The shapes every tenant table shares.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{DatabaseBackend, Statement},
};

use crate::placement::{Placement, create, distribute};

/// Makes a table whose rows lie with all else of their account.
pub(crate) async fn create_table(
    manager: &SchemaManager<'_>,
    table: TableCreateStatement,
) -> Result<(), DbErr> {
    create(manager, table, Placement::WithAccount).await
}

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
    // Rows that were there before get the value from the default until they are written.
    database.execute_unprepared(&format!("UPDATE {table} SET {name} = {name}")).await?;
    replace_in_definition(manager, table, &format!(" DEFAULT ({value})"), "").await
}

/// Whether a table has rows. Citus refuses some statements that change rows from before, whether there are any or not; and a
/// store that lies on it has none.
pub(crate) async fn has_rows(manager: &SchemaManager<'_>, table: &'static str) -> Result<bool, DbErr> {
    let one =
        Statement::from_string(manager.get_database_backend(), format!("SELECT 1 FROM {table} LIMIT 1"));
    Ok(manager.get_connection().query_one_raw(one).await?.is_some())
}

/// Lets a text column that takes one of a few words take one of others, which all rows have.
pub(crate) async fn change_words(
    manager: &SchemaManager<'_>,
    (table, column): (&'static str, &'static str),
    before: &[&str],
    after: &[&str],
) -> Result<(), DbErr> {
    let list = |words: &[&str]| {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
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

/// Changes the text that defines a table of SQLite, which has no statement for defaults and checks. Making the table
/// anew would take the rows of all tables that refer to it along; this is the procedure the manual gives for both.
async fn replace_in_definition(
    manager: &SchemaManager<'_>,
    table: &str,
    from: &str,
    to: &str,
) -> Result<(), DbErr> {
    let database = manager.get_connection();
    let version = Statement::from_string(DatabaseBackend::Sqlite, "PRAGMA schema_version");
    let version: i64 = database
        .query_one_raw(version)
        .await?
        .ok_or_else(|| DbErr::Migration("the database tells no schema version".to_owned()))?
        .try_get_by_index(0)?;
    let quoted = |text: &str| text.replace('\'', "''");
    for statement in [
        "PRAGMA writable_schema = ON".to_owned(),
        format!(
            "UPDATE sqlite_schema SET sql = replace(sql, '{}', '{}') WHERE type = 'table' AND name = '{table}'",
            quoted(from),
            quoted(to)
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
        return create_table(manager, table).await;
    }
    let create = format!("{} PARTITION BY RANGE ({column})", table.to_string(PostgresQueryBuilder));
    let database = manager.get_connection();
    database.execute_unprepared(&create).await?;
    let rest = format!("CREATE TABLE {name}_default PARTITION OF {name} DEFAULT");
    database.execute_unprepared(&rest).await?;
    distribute(manager, name, Placement::WithAccount).await
}
