//! Numbers of workers, spans and errors in their cluster, as the reporter counts them. They are null for
//! rows from before.

use sea_orm_migration::{prelude::*, schema};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: [&str; 3] = ["workers", "spans", "error_occurrences"];
const COLUMN: &str = "number";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in TABLES {
            let column = schema::big_integer_null(COLUMN);
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
            let index = Index::create()
                .name(index_name(table))
                .table(table)
                .col("account_id")
                .col("cluster_id")
                .col(COLUMN)
                .take();
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in TABLES {
            manager.drop_index(Index::drop().name(index_name(table)).table(table).to_owned()).await?;
            manager.alter_table(Table::alter().table(table).drop_column(COLUMN).take()).await?;
        }
        Ok(())
    }
}

fn index_name(table: &str) -> String {
    format!("idx_{table}_number")
}
