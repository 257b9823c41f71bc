//! Clusters, with the totals that lists show.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("clusters")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("id"))
                .col(schema::text("scheduler_id"))
                .col(schema::uuid_null("user_id"))
                .col(schema::text_null("name"))
                .col(schema::text_null("address"))
                .col(schema::text_null("dashboard_url"))
                .col(one_of("status", &["running", "closed"]))
                .col(one_of("desired_state", &["running", "stopped"]))
                .col(schema::big_integer("sequence"))
                .col(schema::big_integer("complete_until"))
                .col(schema::big_integer("reported_at"))
                .col(schema::double("interval_seconds"))
                .col(schema::big_integer("first_seen_at"))
                .col(schema::big_integer("last_seen_at"))
                .col(schema::big_integer("started_at"))
                .col(schema::big_integer_null("closed_at"))
                .col(schema::text_null("close_reason"))
                .col(schema::big_integer_null("idle_since"))
                .col(schema::big_integer("workers"))
                .col(schema::big_integer("threads"))
                .col(schema::big_integer_null("memory_limit_bytes"))
                .col(schema::big_integer("memory_used_bytes"))
                .col(schema::big_integer("total_tasks"))
                .col(schema::big_integer("total_tasks_succeeded"))
                .col(schema::big_integer("total_tasks_erred"))
                .col(schema::big_integer("total_errors"))
                .col(schema::double("total_compute_seconds"))
                .col(schema::double("total_transfer_seconds"))
                .col(schema::double("total_thread_seconds"))
                .col(schema::big_integer("total_bytes"))
                .col(schema::big_integer("total_workers"))
                .col(schema::big_integer("peak_workers"))
                .col(schema::big_integer("peak_threads"))
                .col(schema::big_integer("dropped_computations"))
                .col(schema::big_integer("dropped_task_groups"))
                .col(schema::big_integer("dropped_errors"))
                .primary_key(Index::create().col("account_id").col("id"))
                .foreign_key(&mut belongs_to_account("clusters"))
                .foreign_key(
                    ForeignKey::create()
                        .name("clusters_user_fkey")
                        .from("clusters", "user_id")
                        .to("users", "id")
                        .on_delete(ForeignKeyAction::SetNull),
                )
                .take(),
        )
        .await?;
        manager
            .create_index(
                Index::create()
                    .name("clusters_scheduler_key")
                    .table("clusters")
                    .col("account_id")
                    .col("scheduler_id")
                    .unique()
                    .take(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("clusters_started_idx")
                    .table("clusters")
                    .col("account_id")
                    .col("started_at")
                    .col("id")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("clusters").take()).await
    }
}
