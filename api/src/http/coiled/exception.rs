//! Errors of tasks as `coiled.analytics` lists them.

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
    asked::{Answer, Asked, Refusals, iso, unless_sealed},
    paging,
};
use crate::{
    http::problem::{ErrorBody, Problem},
    store::{AccountErrors, AccountStore, ClusterFilter, ErrorText, StoreError},
};

/// Values of a row.
const VALUES: u64 = 20;

/// A task that erred itself, after its last retry.
#[derive(Serialize, ToSchema)]
pub(super) struct ExceptionRow {
    /// What the reporter named it by, a UUID.
    id: String,
    /// The number of the cluster it happened on.
    cluster_id: i64,
    /// The same.
    scheduler_id: i64,
    /// What that cluster is called.
    cluster_name: Option<String>,
    /// The user whose token the cluster reports with; null when the user left the account.
    user: Option<String>,
    /// When the scheduler learnt of it, by its clock: ISO 8601.
    timestamp: String,
    /// The task's key.
    key: String,
    /// The exception's class, if it can be told.
    #[serde(rename = "type")]
    exception_type: Option<String>,
    /// The exception's text; null if the key it is encrypted with is lost.
    message: Option<String>,
    /// The traceback; empty when a worker died instead of raising, null if the key it is encrypted with is lost.
    traceback: Option<String>,
    /// Address of the worker it happened on, if known.
    worker: Option<String>,
    /// The UUID of that worker, if known.
    worker_id: Option<String>,
    /// Dask's identifier of the computation it happened in, if known.
    computation_id: Option<String>,
    /// Dask's name of the group the task belongs to, if known.
    task_group: Option<String>,
    /// What tasks of that group do, if known.
    prefix: Option<String>,
    /// Dask's identifier of the span it happened in, if known.
    span_id: Option<String>,
    /// Whose failure it is: `user` or `dask`.
    origin: &'static str,
    /// Attempts that failed before this one and were tried again.
    retries: i64,
}

/// List the errors of an account's tasks, the newest first
#[utoipa::path(
    get,
    path = "/api/v2/analytics/{workspace}/exceptions/list",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("since" = Option<f64>, Query, description = "Only what happened at most so many seconds ago."),
        ("user" = Option<String>, Query, description = "Only on clusters of the user of this name."),
        ("cluster" = Option<i64>, Query, description = "Only on the cluster of this number."),
        ("scheduler" = Option<i64>, Query, description = "The same."),
        ("limit" = Option<u64>, Query, description = "At most so many, 1 to 1,000; 100 if not given."),
        ("offset" = Option<u64>, Query, description = "Behind so many others, at most 1,000,000."),
    ),
    responses(
        (status = 200, description = "Errors; none behind the last one.", body = [ExceptionRow]),
        (status = 400, description = "A parameter is wrong; the message names it.", body = ErrorBody),
        (status = 404, description = "No such cluster.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn list(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let slice = paging::slice(asked)?;
            let cluster = match (asked.parameter("cluster"), asked.parameter("scheduler")) {
                (Some(cluster), Some(scheduler)) if cluster != scheduler => {
                    return Err(Problem::parameter(
                        "scheduler",
                        "is the number of another cluster than 'cluster'",
                    ));
                }
                (Some(number), _) | (None, Some(number)) => Some(asked.cluster(&number).await?.id),
                (None, None) => None,
            };
            let clusters = ClusterFilter { users: asked.users().await?, ..ClusterFilter::default() };
            let of = AccountErrors { clusters, at: (asked.since()?, None), ..AccountErrors::default() };
            let rows = asked.store.error_slice(&of, cluster, slice).await?;
            Ok(Answer::slice(in_words(&asked.store, rows).await?, VALUES, slice))
        })
        .await
}

/// Errors as the client's users see them.
async fn in_words(store: &AccountStore, rows: Vec<Model>) -> Result<Vec<ExceptionRow>, Problem> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let clusters: BTreeSet<ClusterId> = rows.iter().map(|row| row.cluster_id).collect();
    let clusters: Vec<ClusterId> = clusters.into_iter().collect();
    let groups: BTreeSet<(ClusterId, TaskGroupId)> =
        rows.iter().filter_map(|row| Some((row.cluster_id, row.task_group_id?))).collect();
    let groups: Vec<_> = groups.into_iter().collect();
    let ((clusters, users), groups) = tokio::try_join!(clusters_and_users(store, &clusters), async {
        if groups.is_empty() { Ok(Vec::new()) } else { store.task_groups_by_id(&groups).await }
    })?;
    let groups: HashMap<_, _> =
        groups.into_iter().map(|group| ((group.cluster_id, group.id), group)).collect();
    let in_words = rows.into_iter().map(|row| {
        let cluster = clusters.get(&row.cluster_id);
        let user = cluster.and_then(|cluster| users.get(&cluster.user_id?));
        let group = row.task_group_id.and_then(|group| groups.get(&(row.cluster_id, group)));
        let text = unless_sealed(store.error_text(&row))?;
        let (message, traceback) = text.map(|ErrorText { message, traceback }| (message, traceback)).unzip();
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
            },
            retries: row.retries,
        })
    });
    Ok(in_words.collect::<Result<_, StoreError>>()?)
}

/// Some clusters, and the users they report as.
async fn clusters_and_users(
    store: &AccountStore,
    ids: &[ClusterId],
) -> Result<(HashMap<ClusterId, cluster::Model>, HashMap<UserId, user::Model>), StoreError> {
    let clusters = store.clusters_by_id(ids).await?;
    let users: BTreeSet<UserId> = clusters.iter().filter_map(|cluster| cluster.user_id).collect();
    let users: Vec<UserId> = users.into_iter().collect();
    let users = store.users_by_id(&users).await?;
    Ok((clusters.into_iter().map(|row| (row.id, row)).collect(), users))
}
