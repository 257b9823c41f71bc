//! Data policies and cost rates of accounts, encryption keys, and the data classes accepted from a
//! cluster.

use sea_orm_migration::{prelude::*, schema};

use crate::reference;
use crate::tenant::{self, add_column, belongs_to_account, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(manager, cost_rates()).await?;
        tenant::create_table(manager, data_policies()).await?;
        reference::create_table(manager, encryption_keys()).await?;
        add_column(manager, "clusters", schema::json("receipt"), "'{}'").await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.alter_table(Table::alter().table("clusters").drop_column("receipt").take()).await?;
        for table in ["encryption_keys", "data_policies", "cost_rates"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}

fn cost_rates() -> TableCreateStatement {
    Table::create()
        .table("cost_rates")
        .col(schema::uuid("account_id"))
        .col(schema::big_integer("valid_from"))
        .col(schema::text("currency"))
        .col(schema::double("per_thread_hour"))
        .col(schema::double("per_gib_hour"))
        .col(schema::double("per_worker_hour"))
        .primary_key(Index::create().col("account_id").col("valid_from"))
        .foreign_key(&mut belongs_to_account("cost_rates"))
        .take()
}

fn data_policies() -> TableCreateStatement {
    Table::create()
        .table("data_policies")
        .col(schema::uuid("account_id"))
        .col(one_of(
            "data_class",
            &["basic", "tasks", "dask_errors", "user_errors", "code", "profiles", "events", "logs"],
        ))
        .col(schema::boolean("accepted"))
        .col(schema::big_integer_null("retention_days"))
        .primary_key(Index::create().col("account_id").col("data_class"))
        .foreign_key(&mut belongs_to_account("data_policies"))
        .take()
}

fn encryption_keys() -> TableCreateStatement {
    Table::create()
        .table("encryption_keys")
        .col(schema::big_integer("id"))
        .col(schema::big_integer("first_used_at"))
        .primary_key(Index::create().col("id"))
        .take()
}
