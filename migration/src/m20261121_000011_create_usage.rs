//! Hourly usage of clusters, and daily totals.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account, belongs_to_cluster};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(manager, usage_hours()).await?;
        tenant::create_table(manager, function_usage_hours()).await?;
        tenant::create_table(manager, usage_days()).await?;
        tenant::create_table(manager, function_usage_days()).await?;
        // For the hours of a day over all clusters.
        for table in ["usage_hours", "function_usage_hours"] {
            manager
                .create_index(
                    Index::create()
                        .name(format!("{table}_hour_idx"))
                        .table(table)
                        .col("account_id")
                        .col("hour")
                        .take(),
                )
                .await?;
        }
        // For the hours that no daily total includes yet. They are few at any time.
        let unfolded =
            "CREATE INDEX usage_hours_unfolded_idx ON usage_hours (account_id, hour) WHERE NOT folded";
        manager.get_connection().execute_unprepared(unfolded).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["function_usage_days", "usage_days", "function_usage_hours", "usage_hours"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}

fn usage_hours() -> TableCreateStatement {
    Table::create()
        .table("usage_hours")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::big_integer("hour"))
        .col(schema::big_integer("sequence"))
        .col(schema::boolean("folded"))
        .col(schema::big_integer("thread_us"))
        .col(schema::big_integer("worker_us"))
        .col(schema::big_integer("memory_gib_us"))
        .col(schema::big_integer("compute_us"))
        .col(schema::big_integer("transfer_us"))
        .col(schema::big_integer_null("cpu_us"))
        .col(schema::big_integer_null("noncpu_us"))
        .col(schema::big_integer_null("serialize_us"))
        .col(schema::big_integer_null("spill_us"))
        .col(schema::big_integer_null("overhead_us"))
        .col(schema::big_integer_null("failed_us"))
        .col(schema::big_integer_null("idle_us"))
        .col(schema::big_integer("tasks"))
        .col(schema::big_integer("tasks_erred"))
        .col(schema::big_integer("retries"))
        .col(schema::big_integer("errors"))
        .col(schema::big_integer("bytes"))
        .col(schema::big_integer("spilled_bytes"))
        .col(schema::big_integer("workers"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("hour"))
        .foreign_key(&mut belongs_to_cluster("usage_hours"))
        .take()
}

fn function_usage_hours() -> TableCreateStatement {
    Table::create()
        .table("function_usage_hours")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::big_integer("hour"))
        .col(schema::text("prefix"))
        .col(schema::big_integer("sequence"))
        .col(schema::big_integer("compute_us"))
        .col(schema::big_integer("transfer_us"))
        .col(schema::big_integer("tasks"))
        .col(schema::big_integer("tasks_erred"))
        .col(schema::big_integer("bytes"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("hour").col("prefix"))
        .foreign_key(&mut belongs_to_cluster("function_usage_hours"))
        .take()
}

fn usage_days() -> TableCreateStatement {
    Table::create()
        .table("usage_days")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("day"))
        .col(schema::uuid("user_id"))
        .col(schema::big_integer("clusters"))
        .col(schema::big_integer("thread_us"))
        .col(schema::big_integer("worker_us"))
        .col(schema::big_integer("memory_gib_us"))
        .col(schema::big_integer("compute_us"))
        .col(schema::big_integer("transfer_us"))
        .col(schema::big_integer_null("cpu_us"))
        .col(schema::big_integer_null("noncpu_us"))
        .col(schema::big_integer_null("serialize_us"))
        .col(schema::big_integer_null("spill_us"))
        .col(schema::big_integer_null("overhead_us"))
        .col(schema::big_integer_null("failed_us"))
        .col(schema::big_integer_null("idle_us"))
        .col(schema::big_integer("tasks"))
        .col(schema::big_integer("tasks_erred"))
        .col(schema::big_integer("retries"))
        .col(schema::big_integer("errors"))
        .col(schema::big_integer("bytes"))
        .col(schema::big_integer("spilled_bytes"))
        .col(schema::big_integer("workers"))
        .primary_key(Index::create().col("account_id").col("day").col("user_id"))
        .foreign_key(&mut belongs_to_account("usage_days"))
        .take()
}

fn function_usage_days() -> TableCreateStatement {
    Table::create()
        .table("function_usage_days")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("day"))
        .col(schema::uuid("user_id"))
        .col(schema::text("prefix"))
        .col(schema::big_integer("compute_us"))
        .col(schema::big_integer("transfer_us"))
        .col(schema::big_integer("tasks"))
        .col(schema::big_integer("tasks_erred"))
        .col(schema::big_integer("bytes"))
        .primary_key(Index::create().col("account_id").col("day").col("user_id").col("prefix"))
        .foreign_key(&mut belongs_to_account("function_usage_days"))
        .take()
}
