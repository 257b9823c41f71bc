//! Numbers of clusters that count up from 1 in each account. Clusters that exist keep their numbers, and
//! later clusters of their accounts count on from the largest one.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("cluster_counters")
            .col(schema::uuid("account_id").primary_key())
            .col(schema::big_integer("last"))
            .foreign_key(&mut belongs_to_account("cluster_counters"))
            .take();
        tenant::create_table(manager, table).await?;
        let count = "INSERT INTO cluster_counters (account_id, last) \
                     SELECT account_id, MAX(id) FROM clusters GROUP BY account_id";
        manager.get_connection().execute_unprepared(count).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("cluster_counters").take()).await
    }
}
