//! Unobserved thread time, and the share of each computation in task groups that several computations
//! use.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{add_column, belongs_to_cluster, create_table};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Earlier reports do not have this value. Their thread time counts as observed.
        for table in ["usage_hours", "usage_days"] {
            add_column(manager, table, schema::big_integer("unobserved_us"), "0").await?;
        }
        create_table(manager, computation_shares()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("computation_shares").take()).await?;
        for table in ["usage_days", "usage_hours"] {
            manager.alter_table(Table::alter().table(table).drop_column("unobserved_us").take()).await?;
        }
        Ok(())
    }
}

fn computation_shares() -> TableCreateStatement {
    Table::create()
        .table("computation_shares")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("cluster_id"))
        .col(schema::uuid("computation_id"))
        .col(schema::uuid("task_group_id"))
        .col(schema::big_integer("sequence"))
        .col(schema::boolean("joint"))
        .col(schema::big_integer("tasks"))
        .col(schema::big_integer("tasks_succeeded"))
        .col(schema::big_integer("tasks_erred"))
        .col(schema::big_integer("tasks_retried"))
        .col(schema::big_integer("released"))
        .col(schema::big_integer("waiting"))
        .col(schema::big_integer("no_worker"))
        .col(schema::big_integer("queued"))
        .col(schema::big_integer("processing"))
        .col(schema::big_integer("memory"))
        .col(schema::big_integer("erred"))
        .col(schema::big_integer("forgotten"))
        .col(schema::double("compute_seconds"))
        .col(schema::double("transfer_seconds"))
        .col(schema::big_integer("bytes"))
        .primary_key(
            Index::create().col("account_id").col("cluster_id").col("computation_id").col("task_group_id"),
        )
        .foreign_key(&mut belongs_to_cluster("computation_shares"))
        .take()
}
