//! Accounts under removal.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("account_removals")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("requested_at"))
                .primary_key(Index::create().col("account_id"))
                .foreign_key(&mut belongs_to_account("account_removals"))
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("account_removals").take()).await
    }
}
