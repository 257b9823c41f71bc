//! The last use of tokens.

use sea_orm_migration::{prelude::*, schema};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Without an index, since it changes every minute.
        let column = schema::big_integer_null("last_used_at");
        manager.alter_table(Table::alter().table("api_tokens").add_column(column).take()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("api_tokens").drop_column("last_used_at").take()).await
    }
}
