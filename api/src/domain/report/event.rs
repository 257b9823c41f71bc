//! Events and log lines.

use entity::{
    ids::{EventId, LogLineId, WorkerId},
    log_line::Source,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::{
    json::Json,
    validated::{Count, Text, UnixTime},
};

/// An event that Dask or a user logged with `log_event`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct EventReport {
    /// A UUIDv7 that the reporter generated.
    #[schema(value_type = uuid::Uuid)]
    pub id: EventId,
    /// The time at which the scheduler received it.
    pub at: UnixTime,
    /// The topic of the event.
    pub topic: Text<512>,
    /// The worker that logged it.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub worker_id: Option<WorkerId>,
    /// The payload.
    #[schema(value_type = serde_json::Value)]
    pub data: Json<16_384>,
}

/// A line of a log.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct LogReport {
    /// A UUIDv7 that the reporter generated.
    #[schema(value_type = uuid::Uuid)]
    pub id: LogLineId,
    /// The time at which it was written.
    pub at: UnixTime,
    /// The kind of process that wrote it.
    pub source: LogSource,
    /// The worker that wrote it, directly or through its nanny.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub worker_id: Option<WorkerId>,
    /// The address or name of that worker.
    #[serde(default)]
    pub worker: Option<Text<2_048>>,
    /// The level, by its name in Python.
    pub level: Text<32>,
    /// The name of the logger.
    pub logger: Text<512>,
    /// The text of the line.
    pub message: Text<20_000>,
    /// The number of consecutive repetitions.
    pub repeated: Count,
}

/// The kind of process that wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogSource {
    /// The scheduler.
    Scheduler,
    /// A worker.
    Worker,
    /// The nanny, the process that supervises a worker.
    Nanny,
}

impl From<LogSource> for Source {
    fn from(source: LogSource) -> Self {
        match source {
            LogSource::Scheduler => Self::Scheduler,
            LogSource::Worker => Self::Worker,
            LogSource::Nanny => Self::Nanny,
        }
    }
}
