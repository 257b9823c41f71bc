//! The GraphQL type of an event.

use async_graphql::{ID, Object};
use chrono::{DateTime, Utc};
use entity::event::Model;

use crate::graphql::{
    clusters::{cluster::Cluster, facet::EventListFields, worker::Worker},
    engine::{
        connection::Connection, error::ApiError, id::GlobalId, projection::inline_fields, scalar::Json,
        scope::AccountScope,
    },
};

/// A page of events, with the fields that only their lists have.
pub(crate) type EventConnection = Connection<Event, EventListFields>;

/// An event that Dask or a user logged with `log_event`.
pub(crate) struct Event {
    scope: AccountScope,
    row: Model,
}

impl Event {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// An event that Dask or a user logged with `log_event`.
#[Object]
impl Event {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Event(self.scope.account.id, self.row.cluster_id, self.row.occurred_at.0, self.row.id)
            .into()
    }

    /// The time at which the scheduler received the event, by its own clock.
    async fn at(&self) -> DateTime<Utc> {
        self.row.occurred_at.into()
    }

    /// The topic of the event.
    async fn topic(&self) -> &str {
        &self.row.topic
    }

    /// The cluster of the event.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::load_existing(&self.scope, self.row.cluster_id).await
    }

    /// The UUID of the worker that logged the event. Null if no worker did, or it is unknown.
    async fn worker_id(&self) -> Option<String> {
        self.row.worker_id.map(|worker| worker.to_string())
    }

    /// The worker that logged the event. Null if no worker did, or it is unknown.
    async fn worker_process(&self) -> Result<Option<Worker>, ApiError> {
        Worker::find_optional(&self.scope, self.row.cluster_id, self.row.worker_id).await
    }

    /// The logged data, without source lines in tracebacks. Null if null was logged.
    async fn data(&self) -> Option<Json> {
        Some(Json::from_text(&self.row.data))
    }
}

inline_fields! { Event: id, at, topic, worker_id, data }
