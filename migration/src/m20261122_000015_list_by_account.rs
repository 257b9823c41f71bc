//! What lists over all clusters of an account are ordered by.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Orders by time over all clusters, which end in the rest of the key. None is on what changes once a row is there.
///
/// There is none of events: they are more than all of these together, and it would make them a seventh larger. A page of
/// them is merged from the pages of single clusters instead, which their key finds.
const INDEXES: [(&str, &str, &[&str]); 5] = [
    ("computations_account_idx", "computations", &["started_at", "cluster_id", "id"]),
    ("spans_account_idx", "spans", &["enqueued_at", "cluster_id", "id"]),
    ("log_lines_account_idx", "log_lines", &["logged_at", "cluster_id", "id"]),
    ("error_occurrences_account_idx", "error_occurrences", &["occurred_at", "cluster_id", "id"]),
    // Counts the errors of a group by time.
    ("error_occurrences_trend_idx", "error_occurrences", &["group_id", "occurred_at"]),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, table, columns) in INDEXES {
            let mut index = Index::create().name(name).table(table).col("account_id").take();
            for column in columns {
                index.col(*column);
            }
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
