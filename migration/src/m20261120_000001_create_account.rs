//! Accounts, users, memberships and API tokens: the reference tables.

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
                .table("accounts")
                .col(schema::uuid("id").primary_key())
                .col(schema::text("slug").unique_key())
                .col(schema::text("name"))
                .col(schema::big_integer("created_at"))
                .take(),
        )
        .await?;
        reference::create_table(
            manager,
            Table::create()
                .table("users")
                .col(schema::uuid("id").primary_key())
                .col(schema::text("name").unique_key())
                .col(schema::big_integer("created_at"))
                .take(),
        )
        .await?;
        reference::create_table(
            manager,
            Table::create()
                .table("memberships")
                .col(schema::uuid("account_id"))
                .col(schema::uuid("user_id"))
                .col(one_of("role", &["owner", "admin", "member", "viewer"]))
                .col(schema::big_integer("created_at"))
                .primary_key(Index::create().col("account_id").col("user_id"))
                .foreign_key(&mut belongs_to_account("memberships"))
                .foreign_key(
                    ForeignKey::create()
                        .name("memberships_user_fkey")
                        .from("memberships", "user_id")
                        .to("users", "id")
                        .on_delete(ForeignKeyAction::Cascade),
                )
                .take(),
        )
        .await?;
        reference::create_table(
            manager,
            Table::create()
                .table("api_tokens")
                .col(schema::uuid("id").primary_key())
                .col(schema::text("identifier").unique_key())
                .col(schema::var_binary("secret_hash", 32))
                .col(schema::uuid("account_id"))
                .col(schema::uuid("user_id"))
                .col(schema::text("label"))
                .col(schema::json("scopes"))
                .col(schema::big_integer("created_at"))
                .col(schema::big_integer_null("expires_at"))
                .col(schema::big_integer_null("revoked_at"))
                // A token is deleted with the membership it was created under.
                .foreign_key(
                    ForeignKey::create()
                        .name("api_tokens_membership_fkey")
                        .from_tbl("api_tokens")
                        .from_col("account_id")
                        .from_col("user_id")
                        .to_tbl("memberships")
                        .to_col("account_id")
                        .to_col("user_id")
                        .on_delete(ForeignKeyAction::Cascade),
                )
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["api_tokens", "memberships", "users", "accounts"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
