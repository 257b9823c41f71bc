//! Idle policies of accounts.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("idle_policies")
                .col(schema::uuid("account_id"))
                .col(one_of("mode", &["observe", "warn", "stop"]))
                .col(schema::big_integer_null("timeout_seconds"))
                .col(schema::big_integer("warn_before_seconds"))
                .col(schema::json("exempt_tags"))
                .col(schema::big_integer("changed_at"))
                .col(schema::uuid("user_id"))
                .primary_key(Index::create().col("account_id"))
                .foreign_key(&mut belongs_to_account("idle_policies"))
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("idle_policies").take()).await
    }
}
