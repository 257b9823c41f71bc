//! Errors, one row per task that failed by itself.

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
                .table("error_occurrences")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("cluster_id"))
                .col(schema::uuid("id"))
                .col(schema::uuid_null("computation_id"))
                .col(schema::uuid_null("task_group_id"))
                .col(schema::big_integer("occurred_at"))
                .col(schema::text("key"))
                .col(schema::text_null("exception_type"))
                .col(schema::text("message"))
                .col(schema::text("traceback"))
                .col(schema::text_null("worker"))
                .primary_key(Index::create().col("account_id").col("cluster_id").col("id"))
                .foreign_key(&mut belongs_to_cluster("error_occurrences"))
                .take(),
        )
        .await?;
        manager
            .create_index(
                Index::create()
                    .name("error_occurrences_computation_idx")
                    .table("error_occurrences")
                    .col("account_id")
                    .col("cluster_id")
                    .col("computation_id")
                    .col("id")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("error_occurrences").take()).await
    }
}
