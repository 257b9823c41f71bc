//! The triage status of error groups.

use sea_orm_migration::{prelude::*, schema};

use crate::tenant::{add_column, one_of};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let status = one_of("status", &["open", "resolved", "ignored"]);
        add_column(manager, "error_groups", status, "'open'").await?;
        for column in [
            schema::big_integer_null("status_changed_at").take(),
            schema::uuid_null("status_changed_by").take(),
            schema::big_integer_null("resolved_until").take(),
        ] {
            manager.alter_table(Table::alter().table("error_groups").add_column(column).take()).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ["resolved_until", "status_changed_by", "status_changed_at", "status"] {
            manager.alter_table(Table::alter().table("error_groups").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
