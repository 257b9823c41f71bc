//! The time from which the idleness of a cluster counts.

use sea_orm_migration::{prelude::*, schema};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = schema::big_integer_null("counted_since");
        manager.alter_table(Table::alter().table("cluster_controls").add_column(column).take()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .alter_table(Table::alter().table("cluster_controls").drop_column("counted_since").take())
            .await
    }
}
