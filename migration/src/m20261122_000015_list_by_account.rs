//! Indexes for lists over all clusters of an account.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Indexes by time over all clusters, on columns that never change. They leave out the rest of the key,
/// which would double their size and only orders rows of the same millisecond; these are sorted when
/// read.
///
/// Events have no such index: they outnumber all of these rows together, and it would make them a
/// seventh larger. A page of events is merged from the pages of single clusters, which use the primary
/// key.
const INDEXES: [(&str, &str, &str); 4] = [
    ("computations_account_idx", "computations", "started_at"),
    ("spans_account_idx", "spans", "enqueued_at"),
    ("log_lines_account_idx", "log_lines", "logged_at"),
    ("error_occurrences_account_idx", "error_occurrences", "occurred_at"),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, table, time) in INDEXES {
            let index = Index::create().name(name).table(table).col("account_id").col(time).take();
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, table, _) in INDEXES {
            manager.drop_index(Index::drop().name(name).table(table).to_owned()).await?;
        }
        Ok(())
    }
}
