//! `/clusters/{id}`: the page that `coiled cluster list` links to. It leads to the cluster in the dashboard.
//! Without a dashboard, it summarizes the cluster and links to GraphiQL.

use std::fmt::Write;

use axum::{
    extract::{RawQuery, State},
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use entity::{cluster::Model, ids::ClusterId};

use super::{
    dashboard,
    page::{ErrorPage, Page, escape},
    page_caller,
    sign_in::see_other,
};
use crate::{
    domain::{answer::KnownPart, life_cycle::State as Life},
    http::{
        extract::{origin::RequestOrigin, path::PathParams, problem::Problem},
        server::state::AppState,
    },
};

/// The cost of the page, in points.
const COST: u64 = 100;

/// Shows a cluster. `account` selects one of the user's accounts.
pub(crate) async fn get(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    PathParams(id): PathParams<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ErrorPage> {
    let missing = || Problem::missing("there is no such cluster");
    let id: ClusterId = id.parse().map_err(|_| missing())?;
    let path = format!("/clusters/{id}");
    let caller = match page_caller::authenticate(&state, origin, &headers, &path, query.as_deref()).await? {
        Ok(caller) => caller,
        Err(to_sign_in) => return Ok(to_sign_in),
    };
    let store = caller.store(&state);
    let row = store.clusters_by_id(&[id]).await?.pop().ok_or_else(missing)?;
    let account = &caller.viewer.account().slug;
    if let Some(view) = dashboard::cluster_path(&state, account, row.id.0) {
        return Ok(see_other(&state, &view));
    }
    let user = match row.user_id {
        Some(user) => store.users_by_id(&[user]).await?.remove(&user),
        None => None,
    };
    state.query_limiter.overdraw(caller.limit_keys, COST);
    Ok(page(&state, &row, user.map(|user| user.name)).into_response())
}

fn page(state: &AppState, row: &Model, user: Option<String>) -> Page {
    let (state_name, now) = (Life::from(row).name(), state.clock.now());
    let time = |at: entity::Timestamp| at.0.format("%Y-%m-%d %H:%M:%S UTC").to_string();
    let facts = [
        ("Number", row.id.to_string()),
        ("Scheduler", row.scheduler_id.clone()),
        ("User", user.unwrap_or_default()),
        ("State", state_name.to_owned()),
        ("Started", time(row.started_at)),
        ("Closed", row.closed_at.map(time).unwrap_or_default()),
        ("Close reason", row.close_reason.clone().unwrap_or_default()),
        ("Last report", time(row.last_seen_at)),
        ("Data coverage", KnownPart::of(row, now).in_words().unwrap_or_default()),
        ("Workers at the last report", row.workers.to_string()),
        ("Tasks", row.total_tasks.to_string()),
        ("Errors", row.total_errors.to_string()),
    ];
    let mut items = String::new();
    for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        write!(items, "<dt>{name}</dt><dd>{}</dd>", escape(fact)).expect("writing to a string succeeds");
    }
    let query =
        format!("{{ cluster(id: \"{}\") {{ name state totals {{ tasks errors threadSeconds }} }} }}", row.id);
    let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
    let graphql = state.site.base.address(&format!("/graphql?query={query}"));
    let query_link = format!("<p><a href=\"{graphql}\">Query it in GraphiQL</a></p>");
    let name = row.name.as_deref().unwrap_or(&row.scheduler_id);
    Page::new(format!("Cluster {name}"), format!("<dl>{items}</dl>{query_link}"))
}
