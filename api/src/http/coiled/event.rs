//! Events as `coiled.analytics` lists them.

use axum::response::Response;
use entity::event::Model;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    paging,
    request::{CoiledRequest, CoiledResponse, Refusals, iso},
};
use crate::{
    http::extract::problem::{ErrorBody, Problem},
    store::StoreError,
};

/// The number of values in a row, for its cost.
const VALUES_PER_ROW: u64 = 7;

/// An event that Dask or a user logged with `log_event`.
#[derive(Serialize, ToSchema)]
pub(super) struct EventRow {
    /// The identifier from the reporter, a UUID.
    id: String,
    /// The cluster's number.
    cluster_id: i64,
    /// The same number: the scheduler has its cluster's number.
    scheduler_id: i64,
    /// The time of the event by the scheduler's clock, in ISO 8601.
    timestamp: String,
    /// The topic of the event.
    topic: String,
    /// The UUID of the worker that logged the event. Null if no worker did.
    worker_id: Option<String>,
    /// The logged data, any JSON.
    #[schema(value_type = Value)]
    data: Box<RawValue>,
}

/// List the events of a cluster, oldest first
#[utoipa::path(
    get,
    path = "/api/v2/analytics/{workspace}/{id}/events/list",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("limit" = Option<u64>, Query, description = "The page size, at least 1. Values above 1,000 count as 1,000. Default: 100."),
        ("offset" = Option<u64>, Query, description = "The number of rows to skip, at most 1,000,000. Default: 0."),
    ),
    responses(
        (status = 200, description = "A page of events, empty after the last one.", body = [EventRow]),
        (status = 400, description = "A parameter is invalid. The message names it.", body = ErrorBody),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn list(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let slice = paging::slice(request)?;
            let cluster = request.cluster(request.path("id")).await?;
            let rows = request.store.event_slice(cluster.id, slice).await?;
            let rows = rows.into_iter().map(EventRow::try_from).collect::<Result<_, _>>()?;
            Ok(CoiledResponse::<Vec<EventRow>>::slice(rows, VALUES_PER_ROW, slice))
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
