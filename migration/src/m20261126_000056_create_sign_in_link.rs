//! Links with which users sign in once.

use sea_orm_migration::{prelude::*, schema};

use crate::reference::{self, belongs_to_user};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        reference::create_table(
            manager,
            Table::create()
                .table("sign_in_links")
                .col(schema::var_binary("id", 32).primary_key())
                .col(schema::uuid("user_id"))
                .col(schema::big_integer("created_at"))
                .col(schema::big_integer("expires_at"))
                .foreign_key(&mut belongs_to_user("sign_in_links"))
                .take(),
        )
        .await?;
        // For replacing the previous link of a user.
        manager
            .create_index(
                Index::create().name("sign_in_links_user_idx").table("sign_in_links").col("user_id").take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("sign_in_links").take()).await
    }
}
