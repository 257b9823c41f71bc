//! The tokens with which clusters are reported. For existing clusters they are recorded from the next
//! report on.

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
                .table("cluster_reporters")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("cluster_id"))
                .col(schema::uuid("token_id"))
                .col(schema::text("token_identifier"))
                .col(schema::big_integer("first_seen_at"))
                .col(schema::big_integer("last_seen_at"))
                .primary_key(Index::create().col("account_id").col("cluster_id").col("token_id"))
                .foreign_key(&mut belongs_to_cluster("cluster_reporters"))
                .take(),
        )
        .await?;
        manager
            .create_index(
                Index::create()
                    .name("cluster_reporters_token_idx")
                    .table("cluster_reporters")
                    .col("account_id")
                    .col("token_identifier")
                    .col("cluster_id")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("cluster_reporters").take()).await
    }
}
