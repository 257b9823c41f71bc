//! The control of clusters: keep-alive and stop requests of users and of the idle policy, the scheduler
//! facts these depend on, and the state `lost`.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_cluster, change_allowed_values, one_of_null};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The states of clusters and computations, before and after this migration.
const STATUS: (&[&str], &[&str]) = (&["running", "closed"], &["running", "closed", "lost"]);
const STATES: (&[&str], &[&str]) =
    (&["running", "finished", "erred", "cancelled"], &["running", "finished", "erred", "cancelled", "lost"]);

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        change_allowed_values(manager, ("clusters", "status"), STATUS.0, STATUS.1).await?;
        change_allowed_values(manager, ("computations", "state"), STATES.0, STATES.1).await?;
        for column in [schema::double_null("idle_timeout_seconds"), schema::big_integer_null("graph_updates")]
        {
            manager.alter_table(Table::alter().table("clusters").add_column(column).take()).await?;
        }
        tenant::create_table(
            manager,
            Table::create()
                .table("cluster_controls")
                .col(schema::uuid("account_id"))
                .col(schema::big_integer("cluster_id"))
                .col(schema::big_integer_null("kept_at"))
                .col(schema::big_integer_null("kept_until"))
                .col(schema::uuid_null("kept_by"))
                .col(schema::big_integer_null("warned_at"))
                .col(schema::big_integer_null("warned_idle_since"))
                .col(schema::big_integer_null("stop_at"))
                .col(one_of_null("stop_origin", &["user", "operator", "idle_policy"]))
                .col(schema::uuid_null("stop_user_id"))
                .col(schema::text_null("stop_reason"))
                .primary_key(Index::create().col("account_id").col("cluster_id"))
                .foreign_key(&mut belongs_to_cluster("cluster_controls"))
                .take(),
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("cluster_controls").take()).await?;
        let database = manager.get_connection();
        for statement in [
            "UPDATE computations SET state = 'running', stopped_at = NULL WHERE state = 'lost'",
            "UPDATE clusters SET status = 'running', ended_key = 9223372036854775807 WHERE status = 'lost'",
        ] {
            database.execute_unprepared(statement).await?;
        }
        for column in ["idle_timeout_seconds", "graph_updates"] {
            manager.alter_table(Table::alter().table("clusters").drop_column(column).take()).await?;
        }
        change_allowed_values(manager, ("computations", "state"), STATES.1, STATES.0).await?;
        change_allowed_values(manager, ("clusters", "status"), STATUS.1, STATUS.0).await
    }
}
