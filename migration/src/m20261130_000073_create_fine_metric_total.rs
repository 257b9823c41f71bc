//! The sums of the fine performance metrics of each closed cluster. Clusters that closed earlier have none,
//! and are summed from their spans.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{belongs_to_cluster, create_table};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let table = Table::create()
            .table("fine_metric_totals")
            .col(schema::uuid("account_id"))
            .col(schema::big_integer("cluster_id"))
            .col(schema::blob("sums"))
            .primary_key(Index::create().col("account_id").col("cluster_id"))
            .foreign_key(&mut belongs_to_cluster("fine_metric_totals"))
            .take();
        create_table(manager, table).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("fine_metric_totals").take()).await
    }
}
