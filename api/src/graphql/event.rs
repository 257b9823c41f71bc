//! Events.

use async_graphql::Object;
use chrono::{DateTime, Utc};
use entity::event::Model;

use super::{scalar::Json, scope::AccountScope};

/// Something Dask or a user logged with `log_event`.
pub(super) struct Event(Model);

impl Event {
    pub(super) fn new(_: &AccountScope, row: Model) -> Self {
        Self(row)
    }
}

/// Something Dask or a user logged with `log_event`.
#[Object]
impl Event {
    /// When the scheduler learnt of it, by its clock.
    async fn at(&self) -> DateTime<Utc> {
        self.0.occurred_at.into()
    }

    /// What it was published under.
    async fn topic(&self) -> &str {
        &self.0.topic
    }

    /// The UUID of the worker it came from; null when it came from none, or it is not known.
    async fn worker_id(&self) -> Option<String> {
        self.0.worker_id.map(|worker| worker.to_string())
    }

    /// What it says. Source lines in tracebacks are left out.
    async fn data(&self) -> Json {
        Json::of(&self.0.data)
    }
}
