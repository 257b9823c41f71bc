//! Token requests of programs without a signed-in user.

use sea_orm_migration::{prelude::*, schema};

use crate::reference;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        reference::create_table(
            manager,
            Table::create()
                .table("token_requests")
                .col(schema::text("identifier").primary_key())
                .col(schema::var_binary("secret_hash", 32))
                .col(schema::text("label"))
                .col(schema::text("address"))
                .col(schema::big_integer("created_at"))
                .col(schema::big_integer("expires_at"))
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("token_requests").take()).await
    }
}
