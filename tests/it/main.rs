//! The integration tests: one binary, one file per noun. They run on SQLite, or on the PostgreSQL server that
//! `GALVO_TEST_DATABASE_URL` names.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod api_token;
mod budget;
mod cluster;
mod command_line;
mod convergence;
mod docs;
mod durability;
mod graphql_http;
mod isolation;
mod migrations;
mod paging;
mod plan;
mod preload;
mod report;
mod schema;
