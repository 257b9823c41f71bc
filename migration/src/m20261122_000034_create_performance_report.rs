//! Performance reports that users store, in chunks: none is read or written as a whole.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const PIECES: &str = "performance_report_pieces";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("performance_reports")
                .col(schema::uuid("account_id"))
                .col(schema::uuid("id"))
                .col(schema::uuid("user_id"))
                .col(schema::text("name"))
                .col(one_of("visibility", &["public", "private"]))
                .col(schema::big_integer("size_bytes"))
                .col(schema::big_integer("created_at"))
                .primary_key(Index::create().col("account_id").col("id"))
                .foreign_key(&mut belongs_to_account("performance_reports"))
                .take(),
        )
        .await?;
        manager
            .create_index(
                Index::create()
                    .name("performance_reports_created_idx")
                    .table("performance_reports")
                    .col("account_id")
                    .col("created_at")
                    .col("id")
                    .take(),
            )
            .await?;
        tenant::create_table(
            manager,
            Table::create()
                .table(PIECES)
                .col(schema::uuid("account_id"))
                .col(schema::uuid("report_id"))
                .col(schema::big_integer("position"))
                .col(schema::big_integer("key_id"))
                .col(schema::blob("sealed"))
                .primary_key(Index::create().col("account_id").col("report_id").col("position"))
                .foreign_key(
                    ForeignKey::create()
                        .name(format!("{PIECES}_report_fkey"))
                        .from_tbl(PIECES)
                        .from_col("account_id")
                        .from_col("report_id")
                        .to_tbl("performance_reports")
                        .to_col("account_id")
                        .to_col("id")
                        .on_delete(ForeignKeyAction::Cascade),
                )
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [PIECES, "performance_reports"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
