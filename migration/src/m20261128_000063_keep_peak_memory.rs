//! The peaks of memory of clusters and workers, and the functions whose tasks a worker was processing at its
//! end. They are null for clusters whose first report is from before, and for workers that ended before.

use sea_orm_migration::{prelude::*, schema};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 2] = ["clusters", "workers"];
const COLUMN: &str = "peak_memory_bytes";
const FUNCTIONS: &str = "processing_functions";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in TABLES {
            let column = schema::big_integer_null(COLUMN);
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
        }
        let functions = schema::json_null(FUNCTIONS);
        manager.alter_table(Table::alter().table("workers").add_column(functions).take()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("workers").drop_column(FUNCTIONS).take()).await?;
        for table in TABLES {
            manager.alter_table(Table::alter().table(table).drop_column(COLUMN).take()).await?;
        }
        Ok(())
    }
}
