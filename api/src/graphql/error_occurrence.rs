//! Errors: tasks that failed.

use async_graphql::{ID, Object};
use chrono::{DateTime, Utc};
use entity::{
    error_occurrence::Model,
    ids::{ClusterId, ErrorOccurrenceId},
};

use super::{
    cluster::Cluster,
    computation::Computation,
    connection::Listed,
    error::{Alone, ApiError},
    error_group::{ErrorGroup, ErrorOrigin},
    id::GlobalId,
    in_place::in_place,
    scalar::BigInt,
    scope::AccountScope,
    task_group::TaskGroup,
    worker::Worker,
};

/// A task that erred itself, after its last retry.
pub(super) struct ErrorOccurrence {
    scope: AccountScope,
    row: Model,
}

impl ErrorOccurrence {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(super) async fn find(
        scope: &AccountScope,
        cluster: ClusterId,
        id: ErrorOccurrenceId,
    ) -> Result<Option<Self>, ApiError> {
        Ok(scope.store.error(cluster, id).await?.map(|row| Self::new(scope, row)))
    }
}

/// A task that erred itself, after its last retry. Tasks that only depend on it are counted, not listed.
#[Object]
impl ErrorOccurrence {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::ErrorOccurrence(self.row.account_id, self.row.cluster_id, self.row.id).into()
    }

    /// The cluster it happened on.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::of(&self.scope, self.row.cluster_id).await
    }

    /// The computation it happened in, if known.
    async fn computation(&self) -> Result<Option<Computation>, ApiError> {
        match self.row.computation_id {
            Some(id) => Computation::find(&self.scope, (self.row.cluster_id, id)).await,
            None => Ok(None),
        }
    }

    /// The group the task belongs to, if known.
    async fn task_group(&self) -> Result<Option<TaskGroup>, ApiError> {
        match self.row.task_group_id {
            Some(id) => TaskGroup::find(&self.scope, (self.row.cluster_id, id)).await,
            None => Ok(None),
        }
    }

    /// The task's key.
    async fn key(&self) -> &str {
        &self.row.key
    }

    /// The exception's class, if it can be told.
    #[graphql(name = "type")]
    async fn exception_type(&self) -> Option<&str> {
        self.row.exception_type.as_deref()
    }

    /// The exception's text, as Dask gives it; null, with an error, when the key it is encrypted with is lost.
    async fn message(&self) -> Alone<String> {
        Some(self.scope.store.error_text(&self.row).map(|text| text.message).map_err(ApiError::from))
    }

    /// The traceback, as Dask gives it; empty when a worker died instead of raising, and null, with an error,
    /// when the key it is encrypted with is lost.
    async fn traceback(&self) -> Alone<String> {
        Some(self.scope.store.error_text(&self.row).map(|text| text.traceback).map_err(ApiError::from))
    }

    /// Address of the worker it happened on, if known.
    async fn worker(&self) -> Option<&str> {
        self.row.worker.as_deref()
    }

    /// The UUID of that worker, if known.
    async fn worker_id(&self) -> Option<String> {
        self.row.worker_id.map(|worker| worker.to_string())
    }

    /// That worker, with what became of it; null when it is not known.
    async fn worker_process(&self) -> Result<Option<Worker>, ApiError> {
        Worker::of(&self.scope, self.row.cluster_id, self.row.worker_id).await
    }

    /// Whose failure it is.
    async fn origin(&self) -> ErrorOrigin {
        self.row.origin.into()
    }

    /// How many attempts failed before this one and were tried again.
    async fn retries(&self) -> BigInt {
        BigInt(self.row.retries)
    }

    /// The errors that look like it; null for those stored before errors were grouped.
    async fn group(&self) -> Result<Option<ErrorGroup>, ApiError> {
        match self.row.group_id {
            Some(id) => ErrorGroup::find(&self.scope, id).await,
            None => Ok(None),
        }
    }

    /// When the scheduler learnt of it, by its clock.
    async fn at(&self) -> DateTime<Utc> {
        self.row.occurred_at.0
    }
}

in_place! {
    ErrorOccurrence: id, key, exception_type as "type", message, traceback, worker, worker_id, origin, retries, at
}

impl Listed for ErrorOccurrence {
    const FIELDS: &'static [&'static str] = &[
        "id",
        "cluster",
        "computation",
        "taskGroup",
        "key",
        "type",
        "worker",
        "workerId",
        "workerProcess",
        "origin",
        "retries",
        "group",
        "at",
    ];
}
