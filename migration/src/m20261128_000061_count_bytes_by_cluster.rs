//! The data that each cluster stored per day, beside the sums of its account, so that its deletion can be
//! subtracted from them. Sums get negative parts, and rows of clusters the numbers of these. What clusters stored
//! before is only in the sums.

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
