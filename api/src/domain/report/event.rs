//! Events and log lines.

use entity::{
    ids::{EventId, LogLineId, WorkerId},
    log_line::Source,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::{
    bounded::{Count, Text, UnixTime},
    json::Json,
};

/// Something Dask or a user logged with `log_event`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct EventReport {
    /// A UUIDv7 the reporter made.
    #[schema(value_type = uuid::Uuid)]
    pub id: EventId,
    /// When the scheduler learnt of it.
    pub at: UnixTime,
    /// What it was published under.
    pub topic: Text<512>,
    /// The worker it came from.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub worker_id: Option<WorkerId>,
    /// What it says.
    #[schema(value_type = serde_json::Value)]
    pub data: Json<16_384>,
}

/// One line of a log.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct LogReport {
    /// A UUIDv7 the reporter made.
    #[schema(value_type = uuid::Uuid)]
    pub id: LogLineId,
    /// When it was written.
    pub at: UnixTime,
    /// What kind of process wrote it.
    pub source: LogSource,
    /// The worker that wrote it, or whose nanny did.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub worker_id: Option<WorkerId>,
    /// That worker's address or name.
    #[serde(default)]
    pub worker: Option<Text<2_048>>,
    /// Python's name of the level.
    pub level: Text<32>,
    /// Name of the logger.
    pub logger: Text<512>,
    /// The line.
    pub message: Text<20_000>,
    /// How often it came in a row.
    pub repeated: Count,
}

/// What kind of process wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogSource {
    /// The scheduler.
    Scheduler,
    /// A worker.
    Worker,
    /// The process that watches over a worker.
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
