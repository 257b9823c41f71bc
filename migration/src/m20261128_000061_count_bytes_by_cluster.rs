//! The data that each cluster stored per day, beside the sums of its account, so that they can be counted as
//! deleted with it. Rows of the account get negative parts, and rows of clusters the numbers of these. What
//! clusters stored before is only in the sums. A server of the build before counts in parts that no sum
//! contains any more, so that its reports during an upgrade are not counted.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        connection.execute_unprepared("UPDATE ingest_days SET part = part - 4").await?;
        let index = "CREATE INDEX ingest_days_sums_idx ON ingest_days (account_id, day) WHERE part < 0";
        connection.execute_unprepared(index).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let connection = manager.get_connection();
        for statement in [
            "DROP INDEX ingest_days_sums_idx",
            "DELETE FROM ingest_days WHERE part >= 0",
            "UPDATE ingest_days SET part = part + 4",
        ] {
            connection.execute_unprepared(statement).await?;
        }
        Ok(())
    }
}
