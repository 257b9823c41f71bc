//! Identities: the subjects by which issuers identify users.

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
                .table("identities")
                .col(schema::text("issuer"))
                .col(schema::text("subject"))
                .col(schema::uuid("user_id"))
                .col(schema::big_integer("created_at"))
                .primary_key(Index::create().col("issuer").col("subject"))
                .foreign_key(
                    ForeignKey::create()
                        .name("identities_user_fkey")
                        .from("identities", "user_id")
                        .to("users", "id")
                        .on_delete(ForeignKeyAction::Cascade),
                )
                .take(),
        )
        .await?;
        manager
            .create_index(
                Index::create().name("identities_user_idx").table("identities").col("user_id").take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("identities").take()).await
    }
}
