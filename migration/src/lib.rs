//! Galvo's schema, step by step. Knows SQL and nothing of `entity/`: an old step must not change its meaning
//! when today's code does.
//!
//! Rules every step keeps, so that one set serves SQLite, PostgreSQL and Citus: `account_id` leads every
//! tenant table's primary key, unique index and foreign key; globally unique things live in the small
//! reference tables only; states are text with a `CHECK`, never a native enum; no triggers; no default or
//! generated value depends on the database's clock; one statement per execution.

use sea_orm_migration::prelude::*;
pub use sea_orm_migration::{IntoSchemaManagerConnection, MigratorTrait};

mod m20261120_000001_create_account;
mod m20261120_000002_create_cluster;
mod m20261120_000003_create_computation;
mod m20261120_000004_create_task_group;
mod m20261120_000005_create_error_occurrence;
mod m20261121_000006_create_worker;
mod m20261121_000007_create_sample_chunk;
mod m20261121_000008_create_span;
mod m20261121_000009_create_event;
mod m20261121_000010_create_error_group;
mod m20261121_000011_create_usage;
mod m20261121_000012_create_data_policy;
mod m20261121_000013_extend_task_group;
mod m20261121_000014_order_clusters;
mod m20261122_000015_list_by_account;
mod m20261122_000017_create_cluster_tag;
mod m20261122_000018_extend_error_group;
mod m20261122_000019_create_idle_policy;
mod m20261122_000020_list_api_tokens;
mod m20261122_000022_create_identity;
mod m20261122_000023_extend_membership;
mod m20261122_000024_create_invitation;
mod m20261122_000025_create_password;
mod m20261122_000026_create_session;
mod m20261122_000027_create_token_request;
mod m20261122_000028_create_cluster_control;
mod m20261122_000029_create_audit_entry;
mod m20261122_000030_add_token_last_use;
mod m20261122_000031_mark_arrival;
mod m20261122_000032_create_cluster_flag;
mod m20261122_000033_create_alert;
mod m20261122_000034_create_performance_report;
mod placement;
mod reference;
mod tenant;

/// All steps, in order.
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261120_000001_create_account::Migration),
            Box::new(m20261120_000002_create_cluster::Migration),
            Box::new(m20261120_000003_create_computation::Migration),
            Box::new(m20261120_000004_create_task_group::Migration),
            Box::new(m20261120_000005_create_error_occurrence::Migration),
            Box::new(m20261121_000006_create_worker::Migration),
            Box::new(m20261121_000007_create_sample_chunk::Migration),
            Box::new(m20261121_000008_create_span::Migration),
            Box::new(m20261121_000009_create_event::Migration),
            Box::new(m20261121_000010_create_error_group::Migration),
            Box::new(m20261121_000011_create_usage::Migration),
            Box::new(m20261121_000012_create_data_policy::Migration),
            Box::new(m20261121_000013_extend_task_group::Migration),
            Box::new(m20261121_000014_order_clusters::Migration),
            Box::new(m20261122_000015_list_by_account::Migration),
            Box::new(m20261122_000017_create_cluster_tag::Migration),
            Box::new(m20261122_000018_extend_error_group::Migration),
            Box::new(m20261122_000019_create_idle_policy::Migration),
            Box::new(m20261122_000020_list_api_tokens::Migration),
            Box::new(m20261122_000022_create_identity::Migration),
            Box::new(m20261122_000023_extend_membership::Migration),
            Box::new(m20261122_000024_create_invitation::Migration),
            Box::new(m20261122_000025_create_password::Migration),
            Box::new(m20261122_000026_create_session::Migration),
            Box::new(m20261122_000027_create_token_request::Migration),
            Box::new(m20261122_000028_create_cluster_control::Migration),
            Box::new(m20261122_000029_create_audit_entry::Migration),
            Box::new(m20261122_000030_add_token_last_use::Migration),
            Box::new(m20261122_000031_mark_arrival::Migration),
            Box::new(m20261122_000032_create_cluster_flag::Migration),
            Box::new(m20261122_000033_create_alert::Migration),
            Box::new(m20261122_000034_create_performance_report::Migration),
        ]
    }
}
