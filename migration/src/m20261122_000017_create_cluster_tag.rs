//! Tags and notes that users add to clusters.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_cluster};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("cluster_tags")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("cluster_id"))
                .col(schema::text("key"))
                .col(schema::text("value"))
                .primary_key(Index::create().col("account_id").col("cluster_id").col("key"))
                .foreign_key(&mut belongs_to_cluster("cluster_tags"))
                .take(),
        )
        .await?;
        // For finding the clusters with a tag. Only users write tags, not reports.
        manager
            .create_index(
                Index::create()
                    .name("cluster_tags_key_idx")
                    .table("cluster_tags")
                    .col("account_id")
                    .col("key")
                    .col("value")
                    .col("cluster_id")
                    .take(),
            )
            .await?;
        tenant::create_table(
            manager,
            Table::create()
                .table("cluster_notes")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("cluster_id"))
                .col(schema::uuid("user_id"))
                .col(schema::big_integer("changed_at"))
                .col(schema::big_integer("key_id"))
                .col(schema::blob("sealed"))
                .primary_key(Index::create().col("account_id").col("cluster_id"))
                .foreign_key(&mut belongs_to_cluster("cluster_notes"))
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["cluster_notes", "cluster_tags"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
