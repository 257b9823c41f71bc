//! Invitations and removed members.

use sea_orm_migration::{prelude::*, schema};

use crate::reference;
use crate::tenant::{belongs_to_account, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        reference::create_table(
            manager,
            Table::create()
                .table("invitations")
                .col(schema::uuid("id").primary_key())
                .col(schema::text("identifier").unique_key())
                .col(schema::var_binary("secret_hash", 32))
                .col(schema::uuid("account_id"))
                .col(schema::text_null("name"))
                .col(schema::text("label"))
                .col(one_of("role", &["owner", "admin", "member", "viewer", "guest"]))
                .col(schema::big_integer_null("ends_at"))
                .col(schema::uuid("invited_by"))
                .col(schema::big_integer("created_at"))
                .col(schema::big_integer("expires_at"))
                .col(schema::big_integer_null("revoked_at"))
                .col(schema::big_integer_null("accepted_at"))
                .col(schema::uuid_null("accepted_by"))
                .foreign_key(&mut belongs_to_account("invitations"))
                .take(),
        )
        .await?;
        manager
            .create_index(
                Index::create()
                    .name("invitations_account_idx")
                    .table("invitations")
                    .col("account_id")
                    .col("created_at")
                    .col("id")
                    .take(),
            )
            .await?;
        reference::create_table(
            manager,
            Table::create()
                .table("removed_members")
                .col(schema::uuid("account_id"))
                .col(schema::uuid("user_id"))
                .col(schema::big_integer("removed_at"))
                .primary_key(Index::create().col("account_id").col("user_id"))
                .foreign_key(&mut belongs_to_account("removed_members"))
                .foreign_key(
                    ForeignKey::create()
                        .name("removed_members_user_fkey")
                        .from("removed_members", "user_id")
                        .to("users", "id")
                        .on_delete(ForeignKeyAction::Cascade),
                )
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["removed_members", "invitations"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
