//! The state of the retention job: its trusted time, its usual volume, and the reason why it is stopped.

use sea_orm_migration::{prelude::*, schema};

use crate::{reference, tenant::one_of_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        reference::create_table(manager, retention_watch()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("retention_watch").take()).await
    }
}

fn retention_watch() -> TableCreateStatement {
    Table::create()
        .table("retention_watch")
        .col(schema::big_integer("id"))
        .col(schema::big_integer("trusted_at"))
        .col(schema::big_integer("usual_rows"))
        .col(one_of_null("hold", &["clock", "amount"]))
        .col(schema::big_integer_null("held_at"))
        .col(schema::big_integer("due_rows"))
        .col(schema::boolean("confirmed"))
        .primary_key(Index::create().col("id"))
        .take()
}
