//! The shapes every tenant table shares.

use sea_orm_migration::prelude::*;

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
