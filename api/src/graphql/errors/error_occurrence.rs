//! The GraphQL type of an error: a task that failed.

use async_graphql::{Context, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    error_occurrence::{self, Model},
    ids::{ClusterId, ErrorOccurrenceId},
};

use super::error_group::{ErrorGroup, ErrorOrigin};
use crate::{
    graphql::{
        clusters::{cluster::Cluster, worker::Worker},
        computations::{computation::Computation, task_group::TaskGroup},
        engine::{
            connection::SummaryFields,
            error::{ApiError, NullOnError},
            id::GlobalId,
            projection::inline_fields,
            row_fields::row_fields,
            scalar::BigInt,
            scope::AccountScope,
        },
    },
    store::SourceText,
};

/// A task that failed itself, after its last retry.
pub(crate) struct ErrorOccurrence {
    scope: AccountScope,
    row: Model,
}

impl ErrorOccurrence {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(crate) async fn find(
        scope: &AccountScope,
        cluster: ClusterId,
        id: ErrorOccurrenceId,
    ) -> Result<Option<Self>, ApiError> {
        Ok(scope.store.error(cluster, id).await?.map(|row| Self::new(scope, row)))
    }

    /// Returns the global identifier, as the resolver of the interface `Node` requires it.
    pub(crate) async fn id(&self, context: &Context<'_>) -> async_graphql::Result<ID> {
        ErrorOccurrenceFields(&self.row).id(context).await
    }
}

row_fields! {
    /// The fields of an error that follow from its row.
    pub(crate) struct ErrorOccurrenceFields of error_occurrence;

    /// The global identifier.
    id(account_id, cluster_id, id): ID = GlobalId::ErrorOccurrence(*account_id, *cluster_id, *id).into();

    /// The number among the cluster's errors, in the order in which the reporter saw them, from 1. `numbered`
    /// finds it. Null if the reporter does not count: an earlier plugin, or an imported file.
    number(number): Option<BigInt> = number.map(BigInt);

    /// The key of the task.
    key(key): &str = key;

    /// The class of the exception. Null if it is unknown.
    exception_type as "type"(exception_type): Option<&str> = exception_type.as_deref();

    /// The address of the worker on which the error occurred. Null if it is unknown.
    worker(worker): Option<&str> = worker.as_deref();

    /// The UUID of the worker. Null if it is unknown.
    worker_id(worker_id): Option<String> = worker_id.map(|worker| worker.to_string());

    /// The origin of the error.
    origin(origin): ErrorOrigin = (*origin).into();

    /// The number of earlier attempts that failed and were retried.
    retries(retries): BigInt = BigInt(*retries);

    /// The time at which the scheduler received the error, by its own clock.
    at(occurred_at): DateTime<Utc> = occurred_at.0;
}

/// A task whose own execution failed, after its last retry. Tasks that failed only because they depend on it
/// are not listed; `TaskGroup.tasksBlamed` counts them.
#[Object]
impl ErrorOccurrence {
    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn row_fields(&self) -> ErrorOccurrenceFields<'_> {
        ErrorOccurrenceFields(&self.row)
    }

    /// The cluster on which the error occurred.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::load_existing(&self.scope, self.row.cluster_id).await
    }

    /// The computation in which the error occurred. Null if it is unknown.
    async fn computation(&self) -> Result<Option<Computation>, ApiError> {
        match self.row.computation_id {
            Some(id) => Computation::find(&self.scope, (self.row.cluster_id, id)).await,
            None => Ok(None),
        }
    }

    /// The group of the task. Null if it is unknown.
    async fn task_group(&self) -> Result<Option<TaskGroup>, ApiError> {
        match self.row.task_group_id {
            Some(id) => TaskGroup::find(&self.scope, (self.row.cluster_id, id)).await,
            None => Ok(None),
        }
    }

    /// The text of the exception, as Dask reports it. Null, with the error code `KEY_MISSING` or
    /// `DAMAGED`, if it cannot be decrypted.
    async fn message(&self) -> NullOnError<String> {
        Some(self.scope.store.decrypt_error_text(&self.row).map(|text| text.message).map_err(ApiError::from))
    }

    /// The traceback, as Dask reports it. Empty if a worker died without raising an exception. Null,
    /// with the error code `KEY_MISSING` or `DAMAGED`, if it cannot be decrypted.
    async fn traceback(&self) -> NullOnError<String> {
        Some(
            self.scope.store.decrypt_error_text(&self.row).map(|text| text.traceback).map_err(ApiError::from),
        )
    }

    /// The source around the failing line, or in the user's code if the failing frame is in an installed
    /// package. Null if the worker's process did not have the source, for example that of a function of a
    /// notebook, and if code is not sent. Null, with the error code `KEY_MISSING` or `DAMAGED`, if it cannot
    /// be decrypted.
    async fn source(&self) -> NullOnError<SourceExcerpt> {
        let text = self.scope.store.decrypt_error_text(&self.row).map_err(ApiError::from);
        text.map(|text| text.source.map(SourceExcerpt::from)).transpose()
    }

    /// The worker process, with the reason for its end. Null if it is unknown.
    async fn worker_process(&self) -> Result<Option<Worker>, ApiError> {
        Worker::find_optional(&self.scope, self.row.cluster_id, self.row.worker_id).await
    }

    /// The group of similar errors. Null for errors that were stored before errors were grouped.
    async fn group(&self) -> Result<Option<ErrorGroup>, ApiError> {
        match self.row.group_id {
            Some(id) => ErrorGroup::find(&self.scope, id).await,
            None => Ok(None),
        }
    }
}

inline_fields! { ErrorOccurrence, rows row as ErrorOccurrenceFields: message, traceback }

/// Lines of a source file around the line at which a task failed.
#[derive(SimpleObject)]
struct SourceExcerpt {
    /// The path of the file on the worker.
    file: String,
    /// The number of the failing line, from 1.
    line: BigInt,
    /// The number of the first of `lines`.
    first_line: BigInt,
    /// The texts of the lines, at most 11. The plugin sends two lines before the failing one and two after
    /// it.
    lines: Vec<String>,
}

impl From<SourceText> for SourceExcerpt {
    fn from(text: SourceText) -> Self {
        let SourceText { file, line, first_line, lines } = text;
        Self { file, line: BigInt(line), first_line: BigInt(first_line), lines }
    }
}

impl SummaryFields for ErrorOccurrence {
    const FIELDS: &'static [&'static str] = &[
        "id",
        "number",
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
