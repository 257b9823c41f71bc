//! The order in which alerts and error groups changed, for subscriptions. It is null in rows that have not
//! changed since this migration.

use sea_orm_migration::{prelude::*, schema};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const COLUMN: &str = "changed_at";
const INDEXES: [(&str, &str); 2] =
    [("alerts", "alerts_changed_idx"), ("error_groups", "error_groups_changed_idx")];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, name) in INDEXES {
            let column = schema::big_integer_null(COLUMN);
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
            let index = Index::create().name(name).table(table).col("account_id").col(COLUMN).take();
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, name) in INDEXES {
            manager.drop_index(Index::drop().name(name).table(table).to_owned()).await?;
            manager.alter_table(Table::alter().table(table).drop_column(COLUMN).take()).await?;
        }
        Ok(())
    }
}
