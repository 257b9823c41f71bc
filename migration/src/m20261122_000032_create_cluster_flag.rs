//! Flags of clusters, and the flags an account has muted.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account, belongs_to_cluster, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const KINDS: [&str; 11] = [
    "memory_pressure",
    "worker_memory_pressure",
    "disk_nearly_full",
    "spilling",
    "unbalanced_workers",
    "gil_contention",
    "event_loop_blocked",
    "many_failures",
    "oversized_graph",
    "version_mismatch",
    "idle",
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("cluster_flags")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("cluster_id"))
                .col(schema::uuid("id"))
                .col(one_of("kind", &KINDS))
                .col(schema::big_integer("since"))
                .col(schema::big_integer("ended_key"))
                .col(schema::double("threshold"))
                .col(schema::double("value"))
                .col(schema::uuid_null("worker_id"))
                .col(schema::uuid_null("error_group_id"))
                .col(schema::text_null("name"))
                .primary_key(Index::create().col("account_id").col("cluster_id").col("id"))
                .foreign_key(&mut belongs_to_cluster("cluster_flags"))
                .take(),
        )
        .await?;
        // Active flags come last in this index. It is written only when a flag is raised or cleared, not
        // by reports.
        manager
            .create_index(
                Index::create()
                    .name("cluster_flags_ended_idx")
                    .table("cluster_flags")
                    .col("account_id")
                    .col("ended_key")
                    .col("since")
                    .col("id")
                    .take(),
            )
            .await?;
        tenant::create_table(
            manager,
            Table::create()
                .table("flag_mutes")
                .col(schema::uuid("account_id"))
                .col(one_of("kind", &KINDS))
                .col(schema::text("tag_key"))
                .col(schema::boolean("any_value"))
                .col(schema::text("tag_value"))
                .col(schema::big_integer("until_key"))
                .col(schema::big_integer("muted_at"))
                .col(schema::uuid("muted_by"))
                .primary_key(
                    Index::create()
                        .col("account_id")
                        .col("kind")
                        .col("tag_key")
                        .col("any_value")
                        .col("tag_value"),
                )
                .foreign_key(&mut belongs_to_account("flag_mutes"))
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["flag_mutes", "cluster_flags"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
