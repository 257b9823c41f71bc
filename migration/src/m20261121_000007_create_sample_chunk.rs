//! Samples of clusters and workers, in packed chunks. On PostgreSQL the tables are partitioned by time.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{belongs_to_cluster, create_partitioned};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create_partitioned(manager, cluster_sample_chunks(), "cluster_sample_chunks", "started_at").await?;
        create_partitioned(manager, worker_sample_chunks(), "worker_sample_chunks", "started_at").await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["worker_sample_chunks", "cluster_sample_chunks"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}

fn cluster_sample_chunks() -> TableCreateStatement {
    Table::create()
        .table("cluster_sample_chunks")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::big_integer("started_at"))
        .col(schema::integer("samples"))
        .col(schema::blob("data"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("started_at"))
        .foreign_key(&mut belongs_to_cluster("cluster_sample_chunks"))
        .take()
}

fn worker_sample_chunks() -> TableCreateStatement {
    Table::create()
        .table("worker_sample_chunks")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::uuid("worker_id"))
        .col(schema::big_integer("started_at"))
        .col(schema::integer("samples"))
        .col(schema::blob("data"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("worker_id").col("started_at"))
        .foreign_key(&mut belongs_to_cluster("worker_sample_chunks"))
        .take()
}
