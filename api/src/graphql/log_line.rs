//! Log lines.

use std::sync::Arc;

use async_graphql::{Enum, ID, Object};
use chrono::{DateTime, Utc};
use entity::{
    ids::ClusterId,
    log_line::{Model, Source},
};

use super::{
    cluster::Cluster,
    connection::{Connection, PageArguments, connect},
    error::{Alone, ApiError},
    in_place::in_place,
    json::names,
    loaders::CountOf,
    scalar::BigInt,
    scope::{AccountScope, Costly},
    worker::Worker,
};
use crate::store::{self, LogFilter, LogParent, LogSort};

/// One line of a log.
pub(super) struct LogLine {
    scope: AccountScope,
    row: Model,
}

impl LogLine {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// One line of the log of a scheduler, worker or nanny. The same line several times in a row is one.
#[Object]
impl LogLine {
    /// When it was written, by the clock of its process.
    async fn at(&self) -> DateTime<Utc> {
        self.row.logged_at.into()
    }

    /// What kind of process wrote it.
    async fn source(&self) -> LogSource {
        self.row.source.into()
    }

    /// Address or name of the worker that wrote it, or whose nanny did; null for a scheduler.
    async fn worker(&self) -> Option<&str> {
        self.row.worker.as_deref()
    }

    /// The UUID of that worker; null for a scheduler, and when it is not known.
    async fn worker_id(&self) -> Option<String> {
        self.row.worker_id.map(|worker| worker.to_string())
    }

    /// That worker; null for a scheduler, and when it is not known.
    async fn worker_process(&self) -> Result<Option<Worker>, ApiError> {
        Worker::of(&self.scope, self.row.cluster_id, self.row.worker_id).await
    }

    /// Python's name of the level: `INFO`, `WARNING` and others.
    async fn level(&self) -> &str {
        &self.row.level
    }

    /// Name of the logger.
    async fn logger(&self) -> &str {
        &self.row.logger
    }

    /// The text; null, with an error, when the key it is encrypted with is lost.
    async fn message(&self) -> Alone<String> {
        Some(self.scope.store.log_message(&self.row).map_err(ApiError::from))
    }

    /// The cluster it was written on.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::of(&self.scope, self.row.cluster_id).await
    }

    /// How often it came in a row, 1 or more.
    async fn repeated(&self) -> BigInt {
        BigInt(self.row.repeated)
    }
}

in_place! { LogLine: at, source, worker, worker_id, level, logger, message, repeated }

/// What kind of process wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Source")]
pub(super) enum LogSource {
    /// The scheduler.
    Scheduler,
    /// A worker.
    Worker,
    /// The process that watches over a worker.
    Nanny,
}

names!(LogSource);

/// Which lines of a cluster's logs are asked for, as it came.
pub(super) struct LogArguments {
    pub(super) at: store::TimeRange,
    pub(super) levels: Option<Vec<String>>,
    pub(super) sources: Option<Vec<LogSource>>,
    pub(super) worker_id: Option<ID>,
    pub(super) words: Option<String>,
}

/// A page of a cluster's log lines.
pub(super) async fn logs(
    scope: &AccountScope,
    cluster: ClusterId,
    arguments: LogArguments,
    page: PageArguments,
) -> Result<Connection<LogLine>, ApiError> {
    let LogArguments { at, levels, sources, worker_id, words } = arguments;
    let worker = match worker_id {
        Some(id) => Some(id.parse().map_err(|_| ApiError::InvalidArgument {
            argument: "workerId",
            reason: "not the UUID of a worker".to_owned(),
        })?),
        None => None,
    };
    let sources = sources.map(|sources| sources.into_iter().map(Source::from).collect());
    let parent = LogParent { cluster, at, filter: LogFilter { levels, sources, worker, processes: None } };
    let sort = LogSort::OldestFirst;
    let Some(words) = words.filter(|words| !words.is_empty()) else {
        return connect(scope, parent, sort, page, LogLine::new).await;
    };
    let request = page.request(scope, sort)?;
    scope.take(Costly::Searches, 1)?;
    let found = scope.store.log_search(&parent, &words, sort, &request).await?;
    let loader = Arc::clone(&scope.loader);
    let total = Box::new(move || {
        let (loader, parent) = (Arc::clone(&loader), parent.clone());
        let count = async move { Ok(loader.load_one(CountOf(parent, sort)).await?.unwrap_or_default()) };
        Box::pin(count) as _
    });
    Ok(Connection::new(found, sort, |row| LogLine::new(scope, row), total))
}
