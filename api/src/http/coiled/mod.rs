//! The routes of the published `coiled` client, except those for tokens, spans and the plugin.
//!
//! Each route runs the same queries on the store as the GraphQL field of the same data, with the same
//! credentials and the same quota of points, and answers in the client's format.

mod account;
mod cluster;
mod cluster_cli;
mod computation;
mod event;
mod exception;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod log;
mod metric;
mod paging;
mod performance_report;
mod prefetch;
mod request;
mod telemetry_stub;
mod user;

use utoipa_axum::{router::OpenApiRouter, routes};

pub(super) use prefetch::PagePrefetcher;

use super::server::state::AppState;

/// Returns the routes with their descriptions.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(user::me))
        .routes(routes!(user::memberships))
        .routes(routes!(user::information))
        .routes(routes!(account::usage))
        .routes(routes!(account::cores))
        .routes(routes!(account::billing_events))
        .routes(routes!(account::prometheus_credentials))
        .routes(routes!(account::health))
        .routes(routes!(telemetry_stub::post))
        .routes(routes!(telemetry_stub::hello))
        .routes(routes!(cluster::list))
        .routes(routes!(cluster::set_desired_state))
        .routes(routes!(computation::of_scheduler))
        .routes(routes!(computation::of_cluster))
        .routes(routes!(event::list))
        .routes(routes!(exception::list))
        .routes(routes!(cluster_cli::list))
        .routes(routes!(cluster_cli::by_name))
        .routes(routes!(cluster_cli::details, cluster_cli::stop))
        .routes(routes!(cluster_cli::address))
        .routes(routes!(log::info))
        .routes(routes!(log::of_cluster))
        .routes(routes!(log::of_instance))
        .routes(routes!(metric::value))
        .routes(routes!(performance_report::store))
        .routes(routes!(performance_report::list))
}
