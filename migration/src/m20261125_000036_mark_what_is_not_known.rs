//! Clusters that are only partly reported, and errors of unknown origin.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::change_allowed_values;

const ORIGINS: (&[&str], &[&str]) = (&["user", "dask"], &["user", "dask", "unknown"]);

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let column = schema::text_null("partial");
        manager.alter_table(Table::alter().table("clusters").add_column(column).take()).await?;
        for table in ["error_groups", "error_occurrences"] {
            change_allowed_values(manager, (table, "origin"), ORIGINS.0, ORIGINS.1).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["error_groups", "error_occurrences"] {
            // The old schema has no such origin, so these errors count as the user's.
            let statement = format!("UPDATE {table} SET origin = 'user' WHERE origin = 'unknown'");
            manager.get_connection().execute_unprepared(&statement).await?;
            change_allowed_values(manager, (table, "origin"), ORIGINS.1, ORIGINS.0).await?;
        }
        manager.alter_table(Table::alter().table("clusters").drop_column("partial").take()).await
    }
}
