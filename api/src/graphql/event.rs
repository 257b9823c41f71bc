//! Events.

use async_graphql::Object;
use chrono::{DateTime, Utc};
use entity::event::Model;

use super::{
    cluster::Cluster, error::ApiError, in_place::in_place, scalar::Json, scope::AccountScope, worker::Worker,
};

/// Something Dask or a user logged with `log_event`.
pub(super) struct Event {
    scope: AccountScope,
    row: Model,
}

impl Event {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// Something Dask or a user logged with `log_event`.
#[Object]
impl Event {
    /// When the scheduler learnt of it, by its clock.
    async fn at(&self) -> DateTime<Utc> {
        self.row.occurred_at.into()
    }

    /// What it was published under.
    async fn topic(&self) -> &str {
        &self.row.topic
    }

    /// The cluster it happened on.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::of(&self.scope, self.row.cluster_id).await
    }

    /// The UUID of the worker it came from; null when it came from none, or it is not known.
    async fn worker_id(&self) -> Option<String> {
        self.row.worker_id.map(|worker| worker.to_string())
    }

    /// That worker; null when it came from none, or it is not known.
    async fn worker_process(&self) -> Result<Option<Worker>, ApiError> {
        Worker::of(&self.scope, self.row.cluster_id, self.row.worker_id).await
    }

    /// What it says; null when that is what was logged. Source lines in tracebacks are left out.
    async fn data(&self) -> Option<Json> {
        Some(Json::of(&self.row.data))
    }
}

in_place! { Event: at, topic, worker_id, data }
