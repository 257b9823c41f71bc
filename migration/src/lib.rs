//! The migrations of Galvo's schema. They know SQL and nothing of `entity/`: an old migration must not
//! change its meaning when today's code does.
//!
//! Every migration follows these rules, so that one set serves SQLite, PostgreSQL and Citus.
//! `account_id` leads the primary key, every unique index and every foreign key of a tenant table.
//! Globally unique rows are only in the small reference tables. States are text with a `CHECK`, never a
//! native enum. There are no triggers. No default or generated value depends on the database's clock.
//! Each statement is executed on its own. A new column brings no constraint along; `tenant::add_column`
//! adds its check afterwards.

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
mod m20261125_000035_observe_usage;
mod m20261125_000036_mark_what_is_not_known;
mod m20261125_000037_count_idleness;
mod m20261126_000040_bound_reports;
mod m20261126_000041_create_retention_watch;
mod m20261126_000042_create_cluster_reporter;
mod m20261126_000043_create_cluster_removal;
mod m20261126_000044_create_account_removal;
mod m20261126_000046_bind_scheduler_tokens;
mod m20261126_000050_find_work;
mod m20261126_000051_create_quota;
mod m20261126_000055_limit_usage;
mod m20261126_000056_create_sign_in_link;
mod m20261127_000057_name_parent_tokens;
mod m20261127_000058_note_retention_rounds;
mod m20261127_000059_create_function_activity;
mod m20261128_000060_count_clusters;
mod m20261128_000061_count_bytes_by_cluster;
mod m20261128_000063_keep_peak_memory;
mod m20261128_000065_create_saved_view;
mod m20261128_000068_number_objects;
mod m20261128_000070_order_changes;
mod m20261129_000072_record_removed_owner;
mod m20261130_000073_create_fine_metric_total;
mod placement;
mod reference;
mod tenant;

/// All migrations, in order.
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
            Box::new(m20261125_000035_observe_usage::Migration),
            Box::new(m20261125_000036_mark_what_is_not_known::Migration),
            Box::new(m20261125_000037_count_idleness::Migration),
            Box::new(m20261126_000040_bound_reports::Migration),
            Box::new(m20261126_000041_create_retention_watch::Migration),
            Box::new(m20261126_000042_create_cluster_reporter::Migration),
            Box::new(m20261126_000043_create_cluster_removal::Migration),
            Box::new(m20261126_000044_create_account_removal::Migration),
            Box::new(m20261126_000046_bind_scheduler_tokens::Migration),
            Box::new(m20261126_000050_find_work::Migration),
            Box::new(m20261126_000051_create_quota::Migration),
            Box::new(m20261126_000055_limit_usage::Migration),
            Box::new(m20261126_000056_create_sign_in_link::Migration),
            Box::new(m20261127_000057_name_parent_tokens::Migration),
            Box::new(m20261127_000058_note_retention_rounds::Migration),
            Box::new(m20261127_000059_create_function_activity::Migration),
            Box::new(m20261128_000060_count_clusters::Migration),
            Box::new(m20261128_000061_count_bytes_by_cluster::Migration),
            Box::new(m20261128_000063_keep_peak_memory::Migration),
            Box::new(m20261128_000065_create_saved_view::Migration),
            Box::new(m20261128_000068_number_objects::Migration),
            Box::new(m20261128_000070_order_changes::Migration),
            Box::new(m20261129_000072_record_removed_owner::Migration),
            Box::new(m20261130_000073_create_fine_metric_total::Migration),
        ]
    }
}
