//! The audit log.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{self, belongs_to_account, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// One index for each sort order of a list: all entries of an account, or those of one action, user or
/// target.
const INDEXES: [(&str, Option<&str>); 4] = [
    ("audit_entries_time_idx", None),
    ("audit_entries_action_idx", Some("action")),
    ("audit_entries_user_idx", Some("user_id")),
    ("audit_entries_target_idx", Some("target")),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        tenant::create_table(
            manager,
            Table::create()
                .table("audit_entries")
                .col(schema::uuid("account_id"))
                .col(schema::uuid("id"))
                .col(schema::big_integer("happened_at"))
                // Without a check, because every new operation adds an action.
                .col(schema::text("action"))
                .col(one_of("outcome", &["done", "refused"]))
                .col(schema::uuid_null("user_id"))
                .col(schema::text_null("user_name"))
                .col(one_of("credential", &["api_token", "jwt", "session", "operator"]))
                .col(schema::text_null("token_identifier"))
                .col(schema::text_null("address"))
                .col(schema::uuid_null("request_id"))
                .col(schema::text("target"))
                .col(schema::text("detail"))
                .primary_key(Index::create().col("account_id").col("id"))
                .foreign_key(&mut belongs_to_account("audit_entries"))
                .take(),
        )
        .await?;
        for (name, column) in INDEXES {
            let mut index = Index::create().name(name).table("audit_entries").col("account_id").take();
            if let Some(column) = column {
                index.col(column);
            }
            manager.create_index(index.col("happened_at").col("id").take()).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("audit_entries").take()).await
    }
}
