//! Guest memberships, which end, and the default account of a user.

use sea_orm_migration::{prelude::*, schema};

use crate::reference;
use crate::tenant::change_allowed_values;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const BEFORE: [&str; 4] = ["owner", "admin", "member", "viewer"];
const AFTER: [&str; 5] = ["owner", "admin", "member", "viewer", "guest"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let ends_at = schema::big_integer_null("ends_at").take();
        manager.alter_table(Table::alter().table("memberships").add_column(ends_at).take()).await?;
        change_allowed_values(manager, ("memberships", "role"), &BEFORE, &AFTER).await?;
        // For finding the accounts of a user before one of them is known.
        manager
            .create_index(
                Index::create()
                    .name("memberships_user_idx")
                    .table("memberships")
                    .col("user_id")
                    .col("account_id")
                    .take(),
            )
            .await?;
        reference::create_table(
            manager,
            Table::create()
                .table("default_accounts")
                .col(schema::uuid("user_id").primary_key())
                .col(schema::uuid("account_id"))
                // Deleted with the membership.
                .foreign_key(
                    ForeignKey::create()
                        .name("default_accounts_membership_fkey")
                        .from_tbl("default_accounts")
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
        manager.drop_table(Table::drop().table("default_accounts").take()).await?;
        manager
            .drop_index(Index::drop().name("memberships_user_idx").table("memberships").to_owned())
            .await?;
        // The old schema has no end of memberships, so guests would stay forever.
        manager.get_connection().execute_unprepared("DELETE FROM memberships WHERE role = 'guest'").await?;
        change_allowed_values(manager, ("memberships", "role"), &AFTER, &BEFORE).await?;
        manager.alter_table(Table::alter().table("memberships").drop_column("ends_at").take()).await
    }
}
