//! The shapes tables of users share, which belong to no account.

use sea_orm_migration::prelude::*;

/// Ties a table's rows to their user, and lets them go with it.
pub(crate) fn belongs_to_user(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .name(format!("{table}_user_fkey"))
        .from(table, "user_id")
        .to("users", "id")
        .on_delete(ForeignKeyAction::Cascade)
        .take()
}
