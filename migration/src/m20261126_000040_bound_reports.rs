//! The parts of reports that exceeded a bound and were cut.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::add_column;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        add_column(manager, "clusters", schema::json("cut"), "'[]'").await?;
        for table in ["usage_hours", "usage_days"] {
            add_column(manager, table, schema::boolean("is_cut"), "false").await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["usage_days", "usage_hours"] {
            manager.alter_table(Table::alter().table(table).drop_column("is_cut").take()).await?;
        }
        manager.alter_table(Table::alter().table("clusters").drop_column("cut").take()).await
    }
}
