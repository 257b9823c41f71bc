//! The token that a scheduler's token was exchanged for, so that its reports are found by either. It is null
//! for reports of other tokens, and for those from before this migration.

use sea_orm_migration::{prelude::*, schema};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "cluster_reporters";
const COLUMN: &str = "parent_identifier";
const INDEX: &str = "cluster_reporters_parent_idx";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = schema::text_null(COLUMN);
        manager.alter_table(Table::alter().table(TABLE).add_column(column).take()).await?;
        manager
            .create_index(
                Index::create()
                    .name(INDEX)
                    .table(TABLE)
                    .col("account_id")
                    .col(COLUMN)
                    .col("cluster_id")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_index(Index::drop().name(INDEX).table(TABLE).to_owned()).await?;
        manager.alter_table(Table::alter().table(TABLE).drop_column(COLUMN).take()).await
    }
}
