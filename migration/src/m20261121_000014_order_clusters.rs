//! Columns and indexes for sorting and filtering clusters.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::add_column;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Indexes for sort orders and filters that would otherwise scan the whole history. All end in the ID,
/// which orders equal values. None contains a column that every report changes: PostgreSQL would then
/// have to rewrite all index entries of a row with each report, which triples a report's size in the
/// WAL.
const INDEXES: [(&str, &[&str]); 3] = [
    ("clusters_ended_idx", &["ended_key"]),
    ("clusters_status_idx", &["status", "started_at"]),
    ("clusters_user_idx", &["user_id", "started_at"]),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ["ended_key", "duration_ms"] {
            add_column(manager, "clusters", schema::big_integer(column), "0").await?;
        }
        let fill = "UPDATE clusters SET ended_key = COALESCE(closed_at, 9223372036854775807), \
                    duration_ms = COALESCE(closed_at, reported_at) - started_at";
        manager.get_connection().execute_unprepared(fill).await?;
        for (name, columns) in INDEXES {
            let mut index = Index::create().name(name).table("clusters").col("account_id").take();
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index.col("id").take()).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, _) in INDEXES {
            manager.drop_index(Index::drop().name(name).table("clusters").to_owned()).await?;
        }
        for column in ["ended_key", "duration_ms"] {
            manager.alter_table(Table::alter().table("clusters").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
