//! Task groups. Each state has a column of its own, which is smaller than JSON and can be summed.

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
                .table("task_groups")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("cluster_id"))
                .col(schema::uuid("id"))
                .col(schema::big_integer("sequence"))
                .col(schema::text("name"))
                .col(schema::text("prefix"))
                .col(schema::big_integer("first_seen_at"))
                .col(schema::big_integer_null("started_at"))
                .col(schema::big_integer_null("stopped_at"))
                .col(schema::big_integer("tasks"))
                .col(schema::big_integer("tasks_succeeded"))
                .col(schema::big_integer("tasks_erred"))
                .col(schema::big_integer("tasks_blamed"))
                .col(schema::big_integer_null("released"))
                .col(schema::big_integer_null("waiting"))
                .col(schema::big_integer_null("no_worker"))
                .col(schema::big_integer_null("queued"))
                .col(schema::big_integer_null("processing"))
                .col(schema::big_integer_null("memory"))
                .col(schema::big_integer_null("erred"))
                .col(schema::big_integer_null("forgotten"))
                .col(schema::double("compute_seconds"))
                .col(schema::double("transfer_seconds"))
                .col(schema::double_null("disk_read_seconds"))
                .col(schema::double_null("disk_write_seconds"))
                .col(schema::double_null("serialize_seconds"))
                .col(schema::double_null("deserialize_seconds"))
                .col(schema::double_null("other_seconds"))
                .col(schema::big_integer("bytes"))
                .col(schema::json("types"))
                .col(schema::json("dependencies"))
                .primary_key(Index::create().col("account_id").col("cluster_id").col("id"))
                .foreign_key(&mut belongs_to_cluster("task_groups"))
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("task_groups").take()).await
    }
}
