//! Computations and their task groups.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_cluster, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("computations")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("cluster_id"))
                .col(schema::uuid("id"))
                .col(schema::big_integer("sequence"))
                .col(one_of("state", &["running", "finished", "erred", "cancelled"]))
                .col(schema::big_integer("started_at"))
                .col(schema::big_integer_null("stopped_at"))
                .primary_key(Index::create().col("account_id").col("cluster_id").col("id"))
                .foreign_key(&mut belongs_to_cluster("computations"))
                .take(),
        )
        .await?;
        manager
            .create_index(
                Index::create()
                    .name("computations_started_idx")
                    .table("computations")
                    .col("account_id")
                    .col("cluster_id")
                    .col("started_at")
                    .col("id")
                    .take(),
            )
            .await?;
        tenant::create_table(
            manager,
            Table::create()
                .table("computation_task_groups")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("cluster_id"))
                .col(schema::uuid("computation_id"))
                .col(schema::uuid("task_group_id"))
                .primary_key(
                    Index::create()
                        .col("account_id")
                        .col("cluster_id")
                        .col("computation_id")
                        .col("task_group_id"),
                )
                .foreign_key(&mut belongs_to_cluster("computation_task_groups"))
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["computation_task_groups", "computations"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
