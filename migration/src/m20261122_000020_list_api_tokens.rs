//! The index for listing the tokens of an account.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .create_index(
                Index::create()
                    .name("api_tokens_account_idx")
                    .table("api_tokens")
                    .col("account_id")
                    .col("created_at")
                    .col("id")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_index(Index::drop().name("api_tokens_account_idx").table("api_tokens").to_owned()).await
    }
}
