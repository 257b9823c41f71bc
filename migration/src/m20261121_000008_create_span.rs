//! Spans, their fine metrics, and the code that called Dask.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account, belongs_to_cluster};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(manager, spans()).await?;
        manager
            .create_index(
                Index::create()
                    .name("spans_parent_idx")
                    .table("spans")
                    .col("account_id")
                    .col("cluster_id")
                    .col("parent_id")
                    .col("enqueued_at")
                    .col("id")
                    .take(),
            )
            .await?;
        manager
            .create_index(
                Index::create()
                    .name("spans_enqueued_idx")
                    .table("spans")
                    .col("account_id")
                    .col("cluster_id")
                    .col("enqueued_at")
                    .col("id")
                    .take(),
            )
            .await?;
        tenant::create_table(manager, client_spans()).await?;
        tenant::create_table(manager, fine_metrics()).await?;
        tenant::create_table(manager, code_snippets()).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["code_snippets", "fine_metrics", "client_spans", "spans"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}

fn spans() -> TableCreateStatement {
    Table::create()
        .table("spans")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::uuid("id"))
        .col(schema::big_integer("sequence"))
        .col(schema::uuid_null("parent_id"))
        .col(schema::json("path"))
        .col(schema::big_integer("enqueued_at"))
        .col(schema::big_integer_null("started_at"))
        .col(schema::big_integer_null("stopped_at"))
        .col(schema::boolean("done"))
        .col(schema::json("collections"))
        .col(schema::json("code"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("id"))
        .foreign_key(&mut belongs_to_cluster("spans"))
        .take()
}

fn client_spans() -> TableCreateStatement {
    Table::create()
        .table("client_spans")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::uuid("span_id"))
        .col(schema::big_integer("started_at"))
        .col(schema::big_integer("stopped_at"))
        .col(schema::json("code"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("span_id"))
        .foreign_key(&mut belongs_to_cluster("client_spans"))
        .take()
}

fn fine_metrics() -> TableCreateStatement {
    Table::create()
        .table("fine_metrics")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::uuid("span_id"))
        .col(schema::big_integer("sequence"))
        .col(schema::blob("cells"))
        .primary_key(Index::create().col("account_id").col("cluster_id").col("span_id"))
        .foreign_key(&mut belongs_to_cluster("fine_metrics"))
        .take()
}

fn code_snippets() -> TableCreateStatement {
    Table::create()
        .table("code_snippets")
        .col(schema::uuid("account_id"))
        .col(schema::text("hash"))
        .col(schema::big_integer("last_used_at"))
        .col(schema::big_integer("key_id"))
        .col(schema::blob("sealed"))
        .primary_key(Index::create().col("account_id").col("hash"))
        .foreign_key(&mut belongs_to_account("code_snippets"))
        .take()
}
