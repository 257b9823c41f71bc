//! Scheduler tokens: their parent, the scheduler they are bound to, and the limit of their renewal. Also
//! the token policies of accounts, and the scopes in token requests.

use sea_orm_migration::{prelude::*, schema};

use crate::{reference, tenant};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::add_column(manager, "api_tokens", schema::boolean("is_of_scheduler"), "false").await?;
        // Without indexes: an account has few tokens, and they are found by account.
        for column in [
            schema::uuid_null("parent_id"),
            schema::text_null("scheduler_id"),
            schema::big_integer_null("renewable_until"),
            schema::big_integer_null("broad_use_at"),
        ] {
            manager.alter_table(Table::alter().table("api_tokens").add_column(column).take()).await?;
        }
        let scopes = schema::json_null("scopes");
        manager.alter_table(Table::alter().table("token_requests").add_column(scopes).take()).await?;
        reference::create_table(
            manager,
            Table::create()
                .table("token_policies")
                .col(schema::uuid("account_id").primary_key())
                .col(schema::boolean("refuses_broad_tokens"))
                .foreign_key(&mut tenant::belongs_to_account("token_policies"))
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("token_policies").take()).await?;
        manager.alter_table(Table::alter().table("token_requests").drop_column("scopes").take()).await?;
        for column in ["broad_use_at", "renewable_until", "scheduler_id", "parent_id", "is_of_scheduler"] {
            manager.alter_table(Table::alter().table("api_tokens").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
