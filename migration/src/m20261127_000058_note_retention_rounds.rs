//! The time of the last round of retention that deleted all due rows. It is null before one has ended.

use sea_orm_migration::{prelude::*, schema};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = schema::big_integer_null("completed_at");
        manager.alter_table(Table::alter().table("retention_watch").add_column(column).take()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("retention_watch").drop_column("completed_at").take()).await
    }
}
