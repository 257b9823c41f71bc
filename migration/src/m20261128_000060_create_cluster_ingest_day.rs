//! The data that each cluster stored per day. For existing clusters it is recorded from the next report on.

use sea_orm_migration::{prelude::*, schema};

use crate::{
    m20261126_000051_create_quota::SECTIONS,
    tenant::{self, belongs_to_cluster},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut days = Table::create();
        days.table("cluster_ingest_days")
            .col(schema::uuid("account_id"))
            .col(schema::big_integer("cluster_id"))
            .col(schema::big_integer("day"));
        for section in SECTIONS {
            days.col(schema::big_integer(section));
        }
        days.col(schema::big_integer("clusters"))
            .primary_key(Index::create().col("account_id").col("cluster_id").col("day"))
            .foreign_key(&mut belongs_to_cluster("cluster_ingest_days"));
        tenant::create_table(manager, days.take()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("cluster_ingest_days").take()).await
    }
}
