//! Hidden and removed clusters, and error groups that only hidden clusters have.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("cluster_removals")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("cluster_id"))
                .col(schema::text("scheduler_id"))
                .col(one_of("state", &["quarantined", "removing", "removed"]))
                .col(schema::big_integer("changed_at"))
                .col(schema::uuid_null("user_id"))
                .col(schema::text_null("token_identifier"))
                .primary_key(Index::create().col("account_id").col("cluster_id"))
                .foreign_key(&mut belongs_to_account("cluster_removals"))
                .take(),
        )
        .await?;
        let database = manager.get_connection();
        for statement in [
            "CREATE UNIQUE INDEX cluster_removals_scheduler_idx ON cluster_removals (account_id, scheduler_id)",
            // Read with every statement, and nearly always empty.
            "CREATE INDEX cluster_removals_hidden_idx ON cluster_removals (account_id, cluster_id) \
             WHERE state <> 'removed'",
        ] {
            database.execute_unprepared(statement).await?;
        }
        let column = schema::big_integer_null("hidden_at");
        manager.alter_table(Table::alter().table("error_groups").add_column(column).take()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("error_groups").drop_column("hidden_at").take()).await?;
        manager.drop_table(Table::drop().table("cluster_removals").take()).await
    }
}
