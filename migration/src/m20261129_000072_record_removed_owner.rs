//! The owner of a removed cluster. Another member may report a scheduler of the same identifier.

use sea_orm_migration::{prelude::*, schema};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLE: &str = "cluster_removals";
const INDEX: &str = "cluster_removals_scheduler_idx";

fn index() -> IndexCreateStatement {
    Index::create().name(INDEX).table(TABLE).col("account_id").col("scheduler_id").take()
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let owner = schema::uuid_null("owner_id");
        manager.alter_table(Table::alter().table(TABLE).add_column(owner).take()).await?;
        manager.drop_index(Index::drop().name(INDEX).table(TABLE).to_owned()).await?;
        manager.create_index(index()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // The index is not unique any more, because an identifier may have been removed several times.
        manager.alter_table(Table::alter().table(TABLE).drop_column("owner_id").take()).await
    }
}
