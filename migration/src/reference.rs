//! The shapes reference tables share: what belongs to no account, or is looked up before the account is known.

use sea_orm_migration::prelude::*;

use crate::placement::{Placement, create};

/// Makes a table of which a distributed database keeps a copy on each machine: small, and seldom written.
pub(crate) async fn create_table(
    manager: &SchemaManager<'_>,
    table: TableCreateStatement,
) -> Result<(), DbErr> {
    create(manager, table, Placement::Everywhere).await
}

/// Ties a table's rows to their user, and lets them go with it.
pub(crate) fn belongs_to_user(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .name(format!("{table}_user_fkey"))
        .from(table, "user_id")
        .to("users", "id")
        .on_delete(ForeignKeyAction::Cascade)
        .take()
}
