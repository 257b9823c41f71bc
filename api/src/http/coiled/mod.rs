//! What the published `coiled` client asks, besides tokens, spans and the plugin.
//!
//! Each route asks the store what a GraphQL field asks it, with the same credentials and from the same points, and writes the
//! answer in the words that the client knows.

mod account;
mod ahead;
mod asked;
mod cluster;
mod cluster_view;
mod computation;
mod event;
mod exception;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod interaction;
mod log;
mod metric;
mod paging;
mod performance_report;
mod user;

use utoipa_axum::{router::OpenApiRouter, routes};

pub(super) use ahead::Ahead;

use super::state::AppState;

/// The routes, described.
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
        .routes(routes!(interaction::post))
        .routes(routes!(interaction::hello))
        .routes(routes!(cluster::list))
        .routes(routes!(cluster::set_desired_state))
        .routes(routes!(computation::of_scheduler))
        .routes(routes!(computation::of_cluster))
        .routes(routes!(event::list))
        .routes(routes!(exception::list))
        .routes(routes!(cluster_view::list))
        .routes(routes!(cluster_view::by_name))
        .routes(routes!(cluster_view::details, cluster_view::stop))
        .routes(routes!(cluster_view::address))
        .routes(routes!(log::info))
        .routes(routes!(log::of_cluster))
        .routes(routes!(log::of_instance))
        .routes(routes!(metric::value))
        .routes(routes!(performance_report::store))
        .routes(routes!(performance_report::list))
}
