//! Quotas of accounts, and the volume they reported, by day.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The sections of reports, grouped by retention.
const SECTIONS: [&str; 7] =
    ["basic_bytes", "task_bytes", "error_bytes", "code_bytes", "profile_bytes", "event_bytes", "log_bytes"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("quotas")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer_null("stored_bytes"))
                .col(schema::big_integer_null("daily_bytes"))
                .col(schema::big_integer_null("daily_clusters"))
                .col(schema::big_integer_null("retention_days"))
                .col(schema::big_integer("changed_at"))
                .primary_key(Index::create().col("account_id"))
                .foreign_key(&mut belongs_to_account("quotas"))
                .take(),
        )
        .await?;
        let mut days = Table::create();
        days.table("ingest_days")
            .col(schema::uuid("account_id"))
            .col(schema::big_integer("day"))
            // Several rows per day, so that reports of one account seldom wait for each other.
            .col(schema::big_integer("part"));
        for section in SECTIONS {
            days.col(schema::big_integer(section));
        }
        days.col(schema::big_integer("clusters"))
            .primary_key(Index::create().col("account_id").col("day").col("part"))
            .foreign_key(&mut belongs_to_account("ingest_days"));
        tenant::create_table(manager, days.take()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["ingest_days", "quotas"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
