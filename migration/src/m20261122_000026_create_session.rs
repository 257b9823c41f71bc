//! Browser sessions.

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
                .table("sessions")
                .col(schema::var_binary("id", 32).primary_key())
                .col(schema::uuid("user_id"))
                .col(schema::big_integer("created_at"))
                .col(schema::big_integer("used_at"))
                .col(schema::big_integer("expires_at"))
                .foreign_key(&mut belongs_to_user("sessions"))
                .take(),
        )
        .await?;
        // For ending all sessions of a user at once.
        manager
            .create_index(
                Index::create()
                    .name("sessions_user_idx")
                    .table("sessions")
                    .col("user_id")
                    .col("created_at")
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("sessions").take()).await
    }
}
