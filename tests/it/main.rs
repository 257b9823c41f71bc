//! The integration tests: one binary, one file per noun. They run on SQLite, or on the PostgreSQL server that
//! `GALVO_TEST_DATABASE_URL` names.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answer;
mod api_token;
mod breakdown;
mod budget;
mod cluster;
mod cluster_list;
mod code;
mod command_line;
mod comparison;
mod convergence;
mod cost;
mod docs;
mod durability;
mod environment;
mod error_group;
mod event;
mod fine_metric;
mod graphql_guard;
mod graphql_http;
mod hostile;
mod isolation;
mod key;
mod log;
mod migrations;
mod paging;
mod plan;
mod preload;
mod privacy;
mod profile;
mod report;
mod retention;
mod schema;
mod series;
mod span;
mod usage;
mod work;
mod worker;
