//! Profiles, events and log lines, which have a limited retention.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{belongs_to_cluster, create_partitioned, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create_partitioned(manager, profiles(), "profiles", "started_at").await?;
        create_partitioned(manager, events(), "events", "occurred_at").await?;
        create_partitioned(manager, log_lines(), "log_lines", "logged_at").await?;
        manager
            .create_index(
                Index::create()
                    .name("log_lines_worker_idx")
                    .table("log_lines")
                    .col("account_id")
                    .col("cluster_id")
                    .col("worker_id")
                    .col("logged_at")
                    .take(),
            )
            .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["log_lines", "events", "profiles"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}

fn profiles() -> TableCreateStatement {
    Table::create()
        .table("profiles")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::big_integer("started_at"))
        .col(schema::uuid("id"))
        .col(schema::big_integer("stopped_at"))
        .col(schema::big_integer("workers"))
        .col(schema::big_integer("samples"))
        .col(schema::big_integer("key_id"))
        .col(schema::blob("sealed"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("started_at").col("id"))
        .foreign_key(&mut belongs_to_cluster("profiles"))
        .take()
}

fn events() -> TableCreateStatement {
    Table::create()
        .table("events")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::big_integer("occurred_at"))
        .col(schema::uuid("id"))
        .col(schema::text("topic"))
        .col(schema::uuid_null("worker_id"))
        .col(schema::text("data"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("occurred_at").col("id"))
        .foreign_key(&mut belongs_to_cluster("events"))
        .take()
}

fn log_lines() -> TableCreateStatement {
    Table::create()
        .table("log_lines")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::big_integer("logged_at"))
        .col(schema::uuid("id"))
        .col(one_of("source", &["scheduler", "worker", "nanny"]))
        .col(schema::uuid_null("worker_id"))
        .col(schema::text_null("worker"))
        .col(schema::text("level"))
        .col(schema::text("logger"))
        .col(schema::big_integer("repeated"))
        .col(schema::big_integer("key_id"))
        .col(schema::blob("sealed"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("logged_at").col("id"))
        .foreign_key(&mut belongs_to_cluster("log_lines"))
        .take()
}
