//! Indexes with which background jobs find their work without visiting idle accounts: running clusters
//! and pending messages. Neither contains a column that every report changes.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for index in [
            "CREATE INDEX clusters_running_idx ON clusters (account_id, id) WHERE status = 'running'",
            "CREATE INDEX alert_deliveries_waiting_idx ON alert_deliveries (account_id, due_key) \
             WHERE due_key < 9223372036854775807",
        ] {
            manager.get_connection().execute_unprepared(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, table) in
            [("alert_deliveries_waiting_idx", "alert_deliveries"), ("clusters_running_idx", "clusters")]
        {
            manager.drop_index(Index::drop().name(name).table(table).to_owned()).await?;
        }
        Ok(())
    }
}
