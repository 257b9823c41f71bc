//! `/clusters/{id}`: where `coiled cluster list` leads. It says what a cluster is, and where more is asked.

use std::fmt::Write;

use axum::{
    extract::{RawQuery, State},
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use entity::{cluster::Model, ids::ClusterId};

use super::{
    address::Source,
    named::Named,
    page::{Page, Refused, escape},
    problem::Problem,
    state::AppState,
    visitor::Visitor,
};
use crate::domain::life_cycle::State as Life;

/// Points that the page costs.
const COST: u64 = 100;

/// Says what a cluster is. `account` says in which of one's accounts.
pub(super) async fn get(
    State(state): State<AppState>,
    Source(origin): Source,
    Named(id): Named<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let missing = || Problem::missing("there is no such cluster");
    let id: ClusterId = id.parse().map_err(|_| missing())?;
    let path = format!("/clusters/{id}");
    let visitor = match Visitor::at(&state, origin, &headers, &path, query.as_deref()).await? {
        Ok(visitor) => visitor,
        Err(to_sign_in) => return Ok(to_sign_in),
    };
    let row = visitor.store.clusters_by_id(&[id]).await?.pop().ok_or_else(missing)?;
    let user = match row.user_id {
        Some(user) => visitor.store.users_by_id(&[user]).await?.remove(&user),
        None => None,
    };
    state.query_budget.overdraw(visitor.taker, COST);
    Ok(page(&row, user.map(|user| user.name)).into_response())
}

fn page(row: &Model, user: Option<String>) -> Page {
    let state = Life::from(row).name();
    let time = |at: entity::Timestamp| at.0.format("%Y-%m-%d %H:%M:%S UTC").to_string();
    let facts = [
        ("Number", row.id.to_string()),
        ("Scheduler", row.scheduler_id.clone()),
        ("User", user.unwrap_or_default()),
        ("State", state.to_owned()),
        ("Started", time(row.started_at)),
        ("Closed", row.closed_at.map(time).unwrap_or_default()),
        ("Because", row.close_reason.clone().unwrap_or_default()),
        ("Last heard of", time(row.last_seen_at)),
        ("Workers at the last report", row.workers.to_string()),
        ("Tasks", row.total_tasks.to_string()),
        ("Errors", row.total_errors.to_string()),
    ];
    let mut told = String::new();
    for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
        write!(told, "<dt>{name}</dt><dd>{}</dd>", escape(fact)).expect("a text takes all");
    }
    let query = format!(
        "{{ cluster(id: \"{}\") {{ name state totals {{ tasks errors clusterSeconds }} }} }}",
        row.id
    );
    let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
    let more = format!("<p><a href=\"/graphql?query={query}\">Ask more about it</a></p>");
    let name = row.name.as_deref().unwrap_or(&row.scheduler_id);
    Page::new(format!("Cluster {name}"), format!("<dl>{told}</dl>{more}"))
}
