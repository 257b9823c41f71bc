//! Groups of similar errors, and encryption of error texts.
//!
//! Existing texts get the key ID 0, which means "not encrypted", until the server re-encrypts them.

use sea_orm_migration::{prelude::*, schema, sea_orm::DatabaseBackend};

use crate::tenant::{self, add_column, belongs_to_account, has_rows, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("error_groups")
                .col(schema::uuid("account_id"))
                .col(schema::uuid("id"))
                .col(one_of("origin", &["user", "dask"]))
                .col(schema::text_null("exception_type"))
                .col(schema::big_integer("first_seen_at"))
                .col(schema::big_integer("last_seen_at"))
                .col(schema::big_integer("key_id"))
                .col(schema::blob("sealed"))
                .primary_key(Index::create().col("account_id").col("id"))
                .foreign_key(&mut belongs_to_account("error_groups"))
                .take(),
        )
        .await?;
        manager
            .create_index(
                Index::create()
                    .name("error_groups_seen_idx")
                    .table("error_groups")
                    .col("account_id")
                    .col("last_seen_at")
                    .col("id")
                    .take(),
            )
            .await?;
        // One change per statement, because SQLite does not accept more.
        for column in [
            schema::uuid_null("span_id").take(),
            schema::uuid_null("worker_id").take(),
            schema::uuid_null("group_id").take(),
            schema::blob_null("sealed").take(),
        ] {
            manager.alter_table(Table::alter().table("error_occurrences").add_column(column).take()).await?;
        }
        for (column, value) in [
            (one_of("origin", &["user", "dask"]), "'user'"),
            (schema::big_integer("retries"), "0"),
            (schema::big_integer("key_id"), "0"),
        ] {
            add_column(manager, "error_occurrences", column, value).await?;
        }
        let database = manager.get_connection();
        let move_texts = match manager.get_database_backend() {
            DatabaseBackend::Postgres => {
                "UPDATE error_occurrences SET sealed = convert_to(\
                 json_build_object('message', message, 'traceback', traceback)::text, 'UTF8')"
            }
            _ => {
                "UPDATE error_occurrences SET sealed = CAST(\
                 json_object('message', message, 'traceback', traceback) AS BLOB)"
            }
        };
        if has_rows(manager, "error_occurrences").await? {
            database.execute_unprepared(move_texts).await?;
        }
        for column in ["message", "traceback"] {
            manager.alter_table(Table::alter().table("error_occurrences").drop_column(column).take()).await?;
        }
        manager
            .create_index(
                Index::create()
                    .name("error_occurrences_group_idx")
                    .table("error_occurrences")
                    .col("account_id")
                    .col("group_id")
                    .col("id")
                    .col("cluster_id")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_index(
                Index::drop().name("error_occurrences_group_idx").table("error_occurrences").to_owned(),
            )
            .await?;
        // Encrypted texts cannot be decrypted here.
        for column in ["message", "traceback"] {
            let column = schema::text(column).default("").take();
            manager.alter_table(Table::alter().table("error_occurrences").add_column(column).take()).await?;
        }
        for column in ["sealed", "key_id", "group_id", "worker_id", "span_id", "retries", "origin"] {
            manager.alter_table(Table::alter().table("error_occurrences").drop_column(column).take()).await?;
        }
        manager.drop_table(Table::drop().table("error_groups").take()).await
    }
}
