//! Passwords of users.

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
                .table("passwords")
                .col(schema::uuid("user_id").primary_key())
                .col(schema::text("hash"))
                .col(schema::big_integer("changed_at"))
                .foreign_key(&mut belongs_to_user("passwords"))
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("passwords").take()).await
    }
}
