//! Saved views: named searches of a page, of one member or shared with the account.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Without further indexes: an account has few views, and they are found by account.
        tenant::create_table(
            manager,
            Table::create()
                .table("saved_views")
                .col(schema::uuid("account_id"))
                .col(schema::uuid("id"))
                // Null for a shared view, which outlives the membership of its creator.
                .col(schema::uuid_null("owner_id"))
                .col(schema::uuid("created_by"))
                .col(schema::text("name"))
                .col(schema::text("page"))
                .col(schema::text("parameters"))
                .col(schema::big_integer("created_at"))
                .col(schema::big_integer("changed_at"))
                .primary_key(Index::create().col("account_id").col("id"))
                .foreign_key(&mut belongs_to_account("saved_views"))
                // A private view is deleted with the membership of its owner.
                .foreign_key(
                    ForeignKey::create()
                        .name("saved_views_membership_fkey")
                        .from_tbl("saved_views")
                        .from_col("account_id")
                        .from_col("owner_id")
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
        manager.drop_table(Table::drop().table("saved_views").take()).await
    }
}
