//! The peaks of memory of clusters and workers. They are null for those whose first report is from before.

use sea_orm_migration::{prelude::*, schema};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 2] = ["clusters", "workers"];
const COLUMN: &str = "peak_memory_bytes";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in TABLES {
            let column = schema::big_integer_null(COLUMN);
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in TABLES {
            manager.alter_table(Table::alter().table(table).drop_column(COLUMN).take()).await?;
        }
        Ok(())
    }
}
