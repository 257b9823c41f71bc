//! The order in which rows arrived, for subscriptions.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::add_column;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Without indexes: the latest rows are found by cluster and time.
const COLUMNS: [(&str, &str); 6] = [
    ("clusters", "changed_at"),
    ("clusters", "late_at"),
    ("computations", "arrived_at"),
    ("error_occurrences", "arrived_at"),
    ("events", "arrived_at"),
    ("log_lines", "arrived_at"),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in COLUMNS {
            // Existing rows arrived before any subscription began.
            add_column(manager, table, schema::big_integer(column), "0").await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in COLUMNS.into_iter().rev() {
            manager.alter_table(Table::alter().table(table).drop_column(column).take()).await?;
        }
        Ok(())
    }
}
