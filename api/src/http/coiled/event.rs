//! Events as `coiled.analytics` lists them.

use axum::response::Response;
use entity::event::Model;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    asked::{Answer, Asked, Refusals, iso},
    paging,
};
use crate::{
    http::problem::{ErrorBody, Problem},
    store::StoreError,
};

/// Values of a row.
const VALUES: u64 = 7;

/// Something that Dask or a user logged with `log_event`.
#[derive(Serialize, ToSchema)]
pub(super) struct EventRow {
    /// What the reporter named it by, a UUID.
    id: String,
    /// The cluster's number.
    cluster_id: i64,
    /// The same.
    scheduler_id: i64,
    /// When it was logged, by the scheduler's clock: ISO 8601.
    timestamp: String,
    /// Under what.
    topic: String,
    /// The UUID of the worker that logged it; null if it was no worker.
    worker_id: Option<String>,
    /// What was logged, any JSON.
    #[schema(value_type = Value)]
    data: Box<RawValue>,
}

/// List the events of a cluster, in the order in which they happened
#[utoipa::path(
    get,
    path = "/api/v2/analytics/{workspace}/{id}/events/list",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("limit" = Option<u64>, Query, description = "At most so many, 1 to 1,000; 100 if not given."),
        ("offset" = Option<u64>, Query, description = "Behind so many others, at most 1,000,000."),
    ),
    responses(
        (status = 200, description = "Events; none behind the last one.", body = [EventRow]),
        (status = 400, description = "A parameter is wrong; the message names it.", body = ErrorBody),
        (status = 404, description = "No such cluster.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn list(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let slice = paging::slice(asked)?;
            let cluster = asked.cluster(asked.path("id")).await?;
            let rows = asked.store.event_slice(cluster.id, slice).await?;
            let rows = rows.into_iter().map(EventRow::try_from).collect::<Result<_, _>>()?;
            Ok(Answer::<Vec<EventRow>>::slice(rows, VALUES, slice))
        })
        .await
}

impl TryFrom<Model> for EventRow {
    type Error = StoreError;

    fn try_from(row: Model) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id.to_string(),
            cluster_id: row.cluster_id.0,
            scheduler_id: row.cluster_id.0,
            timestamp: iso(row.occurred_at),
            topic: row.topic,
            worker_id: row.worker_id.map(|worker| worker.to_string()),
            data: RawValue::from_string(row.data).map_err(|error| StoreError::damaged(&error))?,
        })
    }
}
