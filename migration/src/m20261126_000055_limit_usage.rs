//! The limit of threads that count, and the reported compute time of hours in which not all of it counts.

use sea_orm_migration::{prelude::*, schema};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The new columns, by table. They are null where nothing differs from before.
const COLUMNS: [(&str, &str); 3] = [
    ("quotas", "cluster_threads"),
    ("usage_hours", "reported_compute_us"),
    ("function_usage_hours", "reported_compute_us"),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in COLUMNS {
            let column = schema::big_integer_null(column);
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in COLUMNS {
            manager.alter_table(Table::alter().table(table).drop_column(column).take()).await?;
        }
        Ok(())
    }
}
