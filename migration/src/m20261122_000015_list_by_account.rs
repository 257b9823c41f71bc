//! What lists over all clusters of an account are ordered by.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Orders by time over all clusters, none of which changes once a row is there. The rest of the key would make the indexes
/// twice as large, and tells apart only what happened within a millisecond, which is sorted when it is read.
///
/// There is none of events: they are more than all of these together, and it would make them a seventh larger. A page of
/// them is merged from the pages of single clusters instead, which their key finds.
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
