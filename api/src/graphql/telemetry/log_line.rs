//! Log lines.

use std::sync::Arc;

use async_graphql::{Enum, ID, Object};
use chrono::{DateTime, Utc};
use entity::{
    ids::ClusterId,
    log_line::{Model, Source},
};

use crate::{
    graphql::{
        clusters::{cluster::Cluster, facet::LogListFields, worker::Worker},
        engine::{
            connection::{Connection, PageArguments, load_connection},
            error::{ApiError, NullOnError},
            id::GlobalId,
            json::write_enums_by_name,
            loaders::CountKey,
            projection::inline_fields,
            scalar::BigInt,
            scope::{AccountScope, QuotaKind},
        },
    },
    store::{self, FacetRows, LogFilter, LogParent, LogSort},
};

/// A page of log lines, with the fields that only their lists have.
pub(crate) type LogConnection = Connection<LogLine, LogListFields>;

/// A line of a log.
pub(crate) struct LogLine {
    scope: AccountScope,
    row: Model,
}

impl LogLine {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// A line of the log of a scheduler, a worker or a nanny. Consecutive repetitions of a line are one
/// `LogLine`.
#[Object]
impl LogLine {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::LogLine(self.scope.account.id, self.row.cluster_id, self.row.logged_at.0, self.row.id)
            .into()
    }

    /// The time at which the line was written, by the clock of its process.
    async fn at(&self) -> DateTime<Utc> {
        self.row.logged_at.into()
    }

    /// The kind of process that wrote the line.
    async fn source(&self) -> LogSource {
        self.row.source.into()
    }

    /// The address or name of the worker that wrote the line, or whose nanny wrote it. Null for a
    /// scheduler.
    async fn worker(&self) -> Option<&str> {
        self.row.worker.as_deref()
    }

    /// The UUID of the worker that wrote the line, or whose nanny wrote it. Null for a scheduler, and if
    /// unknown.
    async fn worker_id(&self) -> Option<String> {
        self.row.worker_id.map(|worker| worker.to_string())
    }

    /// The worker that wrote the line, or whose nanny wrote it. Null for a scheduler, and if unknown.
    async fn worker_process(&self) -> Result<Option<Worker>, ApiError> {
        Worker::find_optional(&self.scope, self.row.cluster_id, self.row.worker_id).await
    }

    /// The log level, by its Python name: `INFO`, `WARNING` and others.
    async fn level(&self) -> &str {
        &self.row.level
    }

    /// The name of the logger.
    async fn logger(&self) -> &str {
        &self.row.logger
    }

    /// The text of the line. Null, with the error code `KEY_MISSING` or `DAMAGED`, if it cannot be decrypted.
    async fn message(&self) -> NullOnError<String> {
        Some(self.scope.store.log_message(&self.row).map_err(ApiError::from))
    }

    /// The cluster whose process wrote the line.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::load_existing(&self.scope, self.row.cluster_id).await
    }

    /// The number of consecutive repetitions, at least 1.
    async fn repeated(&self) -> BigInt {
        BigInt(self.row.repeated)
    }
}

inline_fields! { LogLine: id, at, source, worker, worker_id, level, logger, message, repeated }

/// The kinds of processes that write logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Source")]
pub(crate) enum LogSource {
    /// The scheduler.
    Scheduler,
    /// A worker.
    Worker,
    /// The nanny: the process that supervises a worker.
    Nanny,
}

write_enums_by_name!(LogSource);

/// The filter arguments of a cluster's log lines.
pub(crate) struct LogArguments {
    pub(crate) at: store::TimeRange,
    pub(crate) levels: Option<Vec<String>>,
    pub(crate) sources: Option<Vec<LogSource>>,
    pub(crate) worker_id: Option<ID>,
    pub(crate) search_text: Option<String>,
}

/// Returns a page of a cluster's log lines.
pub(crate) async fn load_logs(
    scope: &AccountScope,
    cluster: ClusterId,
    arguments: LogArguments,
    page: PageArguments,
) -> Result<LogConnection, ApiError> {
    let LogArguments { at, levels, sources, worker_id, search_text } = arguments;
    let worker = worker_id.map(|id| Worker::parse_id(scope, cluster, "workerId", &id)).transpose()?;
    let sources = sources.map(|sources| sources.into_iter().map(Source::from).collect());
    let parent = LogParent { cluster, at, filter: LogFilter { levels, sources, worker, processes: None } };
    let sort = LogSort::OldestFirst;
    let fields = LogListFields { scope: scope.clone(), lines: FacetRows::OfCluster(parent.clone()) };
    let Some(search_text) = search_text.filter(|text| !text.is_empty()) else {
        return Ok(load_connection(scope, parent, sort, page, LogLine::new).await?.with_fields(fields));
    };
    let request = page.request(scope, sort)?;
    scope.charge(QuotaKind::Searches, 1)?;
    let page = scope.store.log_search(&parent, &search_text, sort, &request).await?;
    let loader = Arc::clone(&scope.loader);
    let total = Box::new(move || {
        let (loader, parent) = (Arc::clone(&loader), parent.clone());
        let count = async move { Ok(loader.load_one(CountKey(parent, sort)).await?.unwrap_or_default()) };
        Box::pin(count) as _
    });
    Ok(Connection::new(page, sort, |row| LogLine::new(scope, row), total).with_fields(fields))
}
