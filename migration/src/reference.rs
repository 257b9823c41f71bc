//! Helpers for reference tables: rows that belong to no account, or are looked up before the account is
//! known.

use sea_orm_migration::prelude::*;

use crate::placement::{Placement, create};

/// Creates a table with a copy on each machine of a distributed database. The table should be small and
/// seldom written.
pub(crate) async fn create_table(
    manager: &SchemaManager<'_>,
    table: TableCreateStatement,
) -> Result<(), DbErr> {
    create(manager, table, Placement::ReferenceCopy).await
}

/// Returns the foreign key from a table's rows to their user. Deleting the user deletes the rows.
pub(crate) fn belongs_to_user(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .name(format!("{table}_user_fkey"))
        .from(table, "user_id")
        .to("users", "id")
        .on_delete(ForeignKeyAction::Cascade)
        .take()
}
