//! References from task groups, computations and clusters, and the counts of dropped items by kind.

use sea_orm_migration::{prelude::*, schema, sea_orm::DatabaseBackend};

use crate::tenant::{add_column, has_rows};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // One change per statement, because SQLite does not accept more.
        for (table, column) in [
            ("task_groups", schema::uuid_null("span_id").take()),
            ("clusters", schema::uuid_null("environment_id").take()),
        ] {
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
        }
        for (table, column, value) in [
            ("task_groups", schema::big_integer("tasks_retried"), "0"),
            ("computations", schema::json("span_ids"), "'[]'"),
            ("computations", schema::json("code"), "'[]'"),
            ("clusters", schema::json("dropped"), "'{}'"),
        ] {
            add_column(manager, table, column, value).await?;
        }
        let function = match manager.get_database_backend() {
            DatabaseBackend::Postgres => "json_build_object",
            _ => "json_object",
        };
        let move_counts = format!(
            "UPDATE clusters SET dropped = {function}('computations', dropped_computations, \
             'task_groups', dropped_task_groups, 'errors', dropped_errors)"
        );
        if has_rows(manager, "clusters").await? {
            manager.get_connection().execute_unprepared(&move_counts).await?;
        }
        for column in ["dropped_computations", "dropped_task_groups", "dropped_errors"] {
            manager.alter_table(Table::alter().table("clusters").drop_column(column).take()).await?;
        }
        manager
            .create_index(
                Index::create()
                    .name("task_groups_span_idx")
                    .table("task_groups")
                    .col("account_id")
                    .col("cluster_id")
                    .col("span_id")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_index(Index::drop().name("task_groups_span_idx").table("task_groups").to_owned())
            .await?;
        for column in ["dropped_computations", "dropped_task_groups", "dropped_errors"] {
            let column = schema::big_integer(column).default(0).take();
            manager.alter_table(Table::alter().table("clusters").add_column(column).take()).await?;
        }
        for (table, column) in [
            ("clusters", "dropped"),
            ("clusters", "environment_id"),
            ("computations", "code"),
            ("computations", "span_ids"),
            ("task_groups", "tasks_retried"),
            ("task_groups", "span_id"),
        ] {
            manager.alter_table(Table::alter().table(table).drop_column(column).take()).await?;
        }
        Ok(())
    }
}
