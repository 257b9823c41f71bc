//! Workers, clients, their software environments, and the number of threads over time.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_cluster, one_of_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(manager, environments()).await?;
        tenant::create_table(manager, workers()).await?;
        tenant::create_table(manager, clients()).await?;
        tenant::create_table(manager, thread_changes()).await?;
        manager.create_index(time_index("workers", "workers_started_idx", "started_at")).await?;
        manager.create_index(time_index("clients", "clients_connected_idx", "connected_at")).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["thread_changes", "clients", "workers", "environments"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}

/// Returns an index on a cluster's rows by time.
fn time_index(table: &'static str, name: &'static str, time: &'static str) -> IndexCreateStatement {
    Index::create().name(name).table(table).col("account_id").col("cluster_id").col(time).col("id").take()
}

fn environments() -> TableCreateStatement {
    Table::create()
        .table("environments")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::uuid("id"))
        .col(schema::text_null("python"))
        .col(schema::text_null("executable"))
        .col(schema::text_null("os"))
        .col(schema::text_null("os_release"))
        .col(schema::text_null("machine"))
        .col(schema::json("packages"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("id"))
        .foreign_key(&mut belongs_to_cluster("environments"))
        .take()
}

fn workers() -> TableCreateStatement {
    Table::create()
        .table("workers")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::uuid("id"))
        .col(schema::big_integer("sequence"))
        .col(schema::text("name"))
        .col(schema::text("address"))
        .col(schema::text_null("host"))
        .col(schema::uuid_null("environment_id"))
        .col(schema::big_integer("threads"))
        .col(schema::big_integer_null("memory_limit_bytes"))
        .col(schema::big_integer("started_at"))
        .col(schema::big_integer_null("ended_at"))
        .col(one_of_null("end_kind", &["retired", "closed", "memory", "lost", "unknown"]))
        .col(schema::json("processing_keys"))
        .col(schema::big_integer("processing"))
        .col(schema::big_integer("lost_results"))
        .col(schema::big_integer_null("last_memory_bytes"))
        .col(schema::big_integer_null("last_seen_at"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("id"))
        .foreign_key(&mut belongs_to_cluster("workers"))
        .take()
}

fn clients() -> TableCreateStatement {
    Table::create()
        .table("clients")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::uuid("id"))
        .col(schema::big_integer("sequence"))
        .col(schema::text("dask_id"))
        .col(schema::uuid_null("environment_id"))
        .col(schema::big_integer("connected_at"))
        .col(schema::big_integer_null("disconnected_at"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("id"))
        .foreign_key(&mut belongs_to_cluster("clients"))
        .take()
}

fn thread_changes() -> TableCreateStatement {
    Table::create()
        .table("thread_changes")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::big_integer("changed_at"))
        .col(schema::big_integer("threads"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("changed_at"))
        .foreign_key(&mut belongs_to_cluster("thread_changes"))
        .take()
}
