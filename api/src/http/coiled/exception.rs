//! Task errors as `coiled.analytics` lists them.

use std::collections::{BTreeSet, HashMap};

use axum::response::Response;
use entity::{
    cluster,
    error_group::Origin,
    error_occurrence::Model,
    ids::{ClusterId, TaskGroupId, UserId},
    user,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    paging,
    request::{CoiledRequest, CoiledResponse, Refusals, decrypted_or_none, iso},
};
use crate::{
    http::extract::problem::{ErrorBody, Problem},
    store::{AccountErrors, AccountStore, ClusterFilter, ErrorText, StoreError},
};

/// The number of values in a row, for its cost.
const VALUES_PER_ROW: u64 = 20;

/// A task that failed itself, after its last retry.
#[derive(Serialize, ToSchema)]
pub(super) struct ExceptionRow {
    /// The identifier from the reporter, a UUID.
    id: String,
    /// The number of the task's cluster.
    cluster_id: i64,
    /// The same number: the scheduler has its cluster's number.
    scheduler_id: i64,
    /// The name of the cluster.
    cluster_name: Option<String>,
    /// The owner of the cluster: the user with whose credentials it reports. Null after the user left the
    /// account.
    user: Option<String>,
    /// The time when the scheduler learned of the error, by its clock, in ISO 8601.
    timestamp: String,
    /// The task's key.
    key: String,
    /// The class of the exception. Null if unknown.
    #[serde(rename = "type")]
    exception_type: Option<String>,
    /// The message of the exception. Null if its encryption key is lost.
    message: Option<String>,
    /// The traceback. Empty if a worker died instead of raising. Null if its encryption key is lost.
    traceback: Option<String>,
    /// The address of the worker. Null if unknown.
    worker: Option<String>,
    /// The UUID of the worker. Null if unknown.
    worker_id: Option<String>,
    /// Dask's identifier of the computation. Null if unknown.
    computation_id: Option<String>,
    /// Dask's name of the task group. Null if unknown.
    task_group: Option<String>,
    /// The prefix of the task group: the function of its tasks. Null if unknown.
    prefix: Option<String>,
    /// Dask's identifier of the span. Null if unknown.
    span_id: Option<String>,
    /// The cause of the failure: `user`, `dask` or `unknown`.
    origin: &'static str,
    /// The number of failed attempts before this one.
    retries: i64,
}

/// List the task errors of an account, newest first
#[utoipa::path(
    get,
    path = "/api/v2/analytics/{workspace}/exceptions/list",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("since" = Option<f64>, Query, description = "Limits the list to errors of the last so many seconds."),
        ("user" = Option<String>, Query, description = "Limits the list to clusters of the user with this name."),
        ("cluster" = Option<i64>, Query, description = "Limits the list to the cluster with this number."),
        ("scheduler" = Option<i64>, Query, description = "An alias of `cluster`. If both are given, they must be equal."),
        ("limit" = Option<u64>, Query, description = "The page size, at least 1. Values above 1,000 count as 1,000. Default: 100."),
        ("offset" = Option<u64>, Query, description = "The number of rows to skip, at most 1,000,000. Default: 0."),
    ),
    responses(
        (status = 200, description = "A page of errors, empty after the last one.", body = [ExceptionRow]),
        (status = 400, description = "A parameter is invalid. The message names it.", body = ErrorBody),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn list(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let slice = paging::slice(request)?;
            let cluster = match (request.parameter("cluster"), request.parameter("scheduler")) {
                (Some(cluster), Some(scheduler)) if cluster != scheduler => {
                    return Err(Problem::parameter(
                        "scheduler",
                        "is the number of another cluster than 'cluster'",
                    ));
                }
                (Some(number), _) | (None, Some(number)) => Some(request.cluster(&number).await?.id),
                (None, None) => None,
            };
            let clusters = ClusterFilter { users: request.users().await?, ..ClusterFilter::default() };
            let filter = AccountErrors { clusters, at: (request.since()?, None), ..AccountErrors::default() };
            let rows = request.store.error_slice(&filter, cluster, slice).await?;
            Ok(CoiledResponse::slice(convert_rows(&request.store, rows).await?, VALUES_PER_ROW, slice))
        })
        .await
}

/// Converts errors to the client's format.
async fn convert_rows(store: &AccountStore, rows: Vec<Model>) -> Result<Vec<ExceptionRow>, Problem> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let cluster_ids: BTreeSet<ClusterId> = rows.iter().map(|row| row.cluster_id).collect();
    let cluster_ids: Vec<ClusterId> = cluster_ids.into_iter().collect();
    let group_ids: BTreeSet<(ClusterId, TaskGroupId)> =
        rows.iter().filter_map(|row| Some((row.cluster_id, row.task_group_id?))).collect();
    let group_ids: Vec<_> = group_ids.into_iter().collect();
    let ((clusters, users), groups) =
        tokio::try_join!(read_clusters_and_users(store, &cluster_ids), async {
            if group_ids.is_empty() { Ok(Vec::new()) } else { store.task_groups_by_id(&group_ids).await }
        })?;
    let groups: HashMap<_, _> =
        groups.into_iter().map(|group| ((group.cluster_id, group.id), group)).collect();
    let converted = rows.into_iter().map(|row| {
        let cluster = clusters.get(&row.cluster_id);
        let user = cluster.and_then(|cluster| users.get(&cluster.user_id?));
        let group = row.task_group_id.and_then(|group| groups.get(&(row.cluster_id, group)));
        let text = decrypted_or_none(store.decrypt_error_text(&row))?;
        let (message, traceback) =
            text.map(|ErrorText { message, traceback, .. }| (message, traceback)).unzip();
        Ok(ExceptionRow {
            id: row.id.to_string(),
            cluster_id: row.cluster_id.0,
            scheduler_id: row.cluster_id.0,
            cluster_name: cluster.and_then(|cluster| cluster.name.clone()),
            user: user.map(|user| user.name.clone()),
            timestamp: iso(row.occurred_at.0),
            key: row.key,
            exception_type: row.exception_type,
            message,
            traceback,
            worker: row.worker,
            worker_id: row.worker_id.map(|worker| worker.to_string()),
            computation_id: row.computation_id.map(|computation| computation.to_string()),
            task_group: group.map(|group| group.name.clone()),
            prefix: group.map(|group| group.prefix.clone()),
            span_id: row.span_id.map(|span| span.to_string()),
            origin: match row.origin {
                Origin::User => "user",
                Origin::Dask => "dask",
                Origin::Unknown => "unknown",
            },
            retries: row.retries,
        })
    });
    Ok(converted.collect::<Result<_, StoreError>>()?)
}

/// Returns the clusters with these ids and their users.
async fn read_clusters_and_users(
    store: &AccountStore,
    ids: &[ClusterId],
) -> Result<(HashMap<ClusterId, cluster::Model>, HashMap<UserId, user::Model>), StoreError> {
    let clusters = store.clusters_by_id(ids).await?;
    let user_ids: BTreeSet<UserId> = clusters.iter().filter_map(|cluster| cluster.user_id).collect();
    let user_ids: Vec<UserId> = user_ids.into_iter().collect();
    let users = store.users_by_id(&user_ids).await?;
    Ok((clusters.into_iter().map(|row| (row.id, row)).collect(), users))
}
