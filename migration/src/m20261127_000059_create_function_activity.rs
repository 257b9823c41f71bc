//! The compute time of functions over time, in packed chunks. On PostgreSQL the table is partitioned by time.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{belongs_to_cluster, create_partitioned};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("function_activity_chunks")
            .col(schema::uuid("account_id"))
            .col(schema::big_integer("cluster_id"))
            .col(schema::big_integer("started_at"))
            .col(schema::integer("functions"))
            .col(schema::blob("data"))
            .primary_key(Index::create().col("account_id").col("cluster_id").col("started_at"))
            .foreign_key(&mut belongs_to_cluster("function_activity_chunks"))
            .take();
        create_partitioned(manager, table, "function_activity_chunks", "started_at").await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("function_activity_chunks").take()).await
    }
}
