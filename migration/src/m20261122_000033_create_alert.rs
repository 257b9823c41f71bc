//! Alert rules, alerts, and the outbox of messages.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// Ties a table's rows to a rule of the same account. Deleting the rule deletes them.
fn belongs_to_rule(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .name(format!("{table}_rule_fkey"))
        .from_tbl(table)
        .from_col("account_id")
        .from_col("rule_id")
        .to_tbl("alert_rules")
        .to_col("account_id")
        .to_col("id")
        .on_delete(ForeignKeyAction::Cascade)
        .take()
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("alert_rules")
                .col(schema::uuid("account_id"))
                .col(schema::uuid("id"))
                .col(schema::text("name"))
                .col(schema::boolean("enabled"))
                .col(schema::json("condition"))
                .col(schema::json("scope"))
                .col(schema::big_integer("cool_down_seconds"))
                .col(schema::boolean("tells_end"))
                .col(schema::big_integer("created_at"))
                .col(schema::big_integer("changed_at"))
                .col(schema::uuid("changed_by"))
                // The targets and the signing secret.
                .col(schema::big_integer("key_id"))
                .col(schema::blob("sealed"))
                .primary_key(Index::create().col("account_id").col("id"))
                .foreign_key(&mut belongs_to_account("alert_rules"))
                .take(),
        )
        .await?;
        tenant::create_table(
            manager,
            Table::create()
                .table("alerts")
                .col(schema::uuid("account_id"))
                .col(schema::uuid("id"))
                .col(schema::uuid("rule_id"))
                .col(schema::text("subject"))
                .col(schema::big_integer("since"))
                .col(schema::big_integer("ended_key"))
                .col(schema::double("value"))
                .col(schema::big_integer_null("told_at"))
                .col(schema::boolean("told"))
                .primary_key(Index::create().col("account_id").col("id"))
                .foreign_key(&mut belongs_to_rule("alerts"))
                .take(),
        )
        .await?;
        tenant::create_table(
            manager,
            Table::create()
                .table("alert_deliveries")
                .col(schema::uuid("account_id"))
                .col(schema::uuid("id"))
                .col(schema::uuid("rule_id"))
                .col(one_of("channel", &["webhook", "email"]))
                .col(one_of("event", &["alerts", "test"]))
                .col(schema::text("target"))
                .col(one_of("state", &["pending", "delivered", "failed"]))
                .col(schema::big_integer("created_at"))
                .col(schema::big_integer("due_key"))
                .col(schema::big_integer("attempts"))
                .col(schema::big_integer_null("ended_at"))
                .col(schema::text_null("last_error"))
                // The recipient and the content.
                .col(schema::big_integer("key_id"))
                .col(schema::blob("sealed"))
                .primary_key(Index::create().col("account_id").col("id"))
                .foreign_key(&mut belongs_to_rule("alert_deliveries"))
                .take(),
        )
        .await?;
        for (name, table, columns) in [
            ("alerts_ended_idx", "alerts", ["ended_key", "since", "id"].as_slice()),
            ("alerts_rule_idx", "alerts", &["rule_id", "ended_key"]),
            ("alert_deliveries_due_idx", "alert_deliveries", &["due_key"]),
            ("alert_deliveries_created_idx", "alert_deliveries", &["created_at", "id"]),
            ("alert_deliveries_rule_idx", "alert_deliveries", &["rule_id", "created_at"]),
        ] {
            let mut index = Index::create().name(name).table(table).col("account_id").take();
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["alert_deliveries", "alerts", "alert_rules"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}
