//! Subscriptions.
//!
//! Nothing in this module waits for changes. The field of a subscription is resolved for one of two
//! purposes, which are passed with the request: to check its arguments, which results in a
//! [`SubscriptionPlan`], and to write one payload of rows that `live/` read for all subscribers of the
//! same document.

mod account_streams;
mod batch;
mod gap;
mod latest_state;
mod row_streams;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_graphql::{Context, ID, MergedSubscription};
use entity::{alert, cluster, computation, error_group, error_occurrence, event, ids::ClusterId, log_line};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};

pub(super) use self::gap::Gap;
pub(crate) use self::gap::mark_gap;
use self::{
    account_streams::AccountSubscription, latest_state::StateSubscription, row_streams::AppendSubscription,
};
use super::{
    clusters::cluster::Cluster,
    engine::{argument::check_max_len, error::ApiError, scope::AccountScope},
    schema::{self, RequestContext},
};
use crate::{
    bus::ChangeKinds,
    domain::stream_cursor::{Position, Stream},
    store::{
        AccountComputations, AccountErrors, AccountEvents, AccountLogs, AccountTable, ClusterFilter,
        ErrorGroupFilter,
    },
};

/// The time between two rounds of reading, in milliseconds. Reports that arrive in this time are read
/// together.
const READ_INTERVAL_MS: u64 = 100;

/// The maximum number of clusters that a subscription names.
const MAX_CLUSTERS: usize = 100;

/// The maximum number of recently changed clusters that a new position records. The changes of further
/// clusters in the last minute are sent again.
const MAX_RECENT_CLUSTERS: u64 = 5_000;

/// The root of all subscriptions. A subscription selects one of these fields. It ends when its
/// credentials end. Each payload has a `cursor`, from which a new subscription resumes after a broken
/// connection.
#[derive(MergedSubscription, Default)]
pub(super) struct Subscription(StateSubscription, AppendSubscription, AccountSubscription);

/// The checked arguments of a subscription.
#[derive(Clone, Debug)]
pub(crate) struct SubscriptionPlan {
    /// The rows to deliver.
    pub(crate) selection: RowSelection,
    /// The clusters to deliver rows of. `None` for all clusters.
    pub(crate) clusters: Option<Vec<ClusterId>>,
    /// The position to resume from. `None` to start from now.
    pub(crate) after: Option<Position>,
    /// The time between two rounds of reading, in milliseconds.
    pub(crate) read_interval_ms: u64,
}

impl SubscriptionPlan {
    /// Creates a plan that delivers changes as they arrive.
    fn new(selection: RowSelection, clusters: Option<Vec<ClusterId>>, after: Option<Position>) -> Self {
        Self { selection, clusters, after, read_interval_ms: READ_INTERVAL_MS }
    }
}

/// A kind of rows to deliver, with its filter.
#[derive(Clone, Debug)]
pub(crate) enum RowSelection {
    /// Clusters that changed, one per payload.
    Clusters(ClusterFilter),
    /// Clusters that reported, several per payload.
    Snapshots(ClusterFilter),
    /// Computations that started or changed.
    Computations(AccountComputations),
    /// Errors, with the lower-case text that they must contain, if any.
    Errors(AccountErrors, Option<String>),
    /// Events.
    Events(AccountEvents),
    /// Log lines, with the lower-case text that they must contain, if any.
    Logs(AccountLogs, Option<String>),
    /// Alerts that changed.
    Alerts,
    /// Error groups that changed.
    ErrorGroups(ErrorGroupFilter),
}

impl RowSelection {
    /// Returns the table of the account whose changed rows the subscription delivers. `None` if it delivers
    /// clusters or rows of clusters.
    pub(crate) fn account_table(&self) -> Option<AccountTable> {
        match self {
            Self::Alerts => Some(AccountTable::Alerts),
            Self::ErrorGroups(_) => Some(AccountTable::ErrorGroups),
            Self::Clusters(_)
            | Self::Snapshots(_)
            | Self::Computations(_)
            | Self::Errors(..)
            | Self::Events(_)
            | Self::Logs(..) => None,
        }
    }

    /// Returns the stream that the cursors of the subscription belong to.
    pub(crate) fn stream(&self) -> Stream {
        match self {
            Self::Clusters(_) => Stream::Clusters,
            Self::Snapshots(_) => Stream::Snapshots,
            Self::Computations(_) => Stream::Computations,
            Self::Errors(..) => Stream::Errors,
            Self::Events(_) => Stream::Events,
            Self::Logs(..) => Stream::Logs,
            Self::Alerts => Stream::Alerts,
            Self::ErrorGroups(_) => Stream::ErrorGroups,
        }
    }

    /// Returns the changes that can add rows to the subscription.
    pub(crate) fn changes(&self) -> ChangeKinds {
        match self {
            Self::Clusters(_) => ChangeKinds::STATE | ChangeKinds::FLAGS | ChangeKinds::ANNOTATIONS,
            Self::Snapshots(_) => ChangeKinds::STATE | ChangeKinds::SAMPLES,
            Self::Computations(_) => ChangeKinds::COMPUTATIONS,
            Self::Errors(..) => ChangeKinds::ERRORS,
            Self::Events(_) => ChangeKinds::EVENTS,
            Self::Logs(..) => ChangeKinds::LOGS,
            Self::Alerts => ChangeKinds::ALERTS,
            Self::ErrorGroups(_) => ChangeKinds::ERROR_GROUPS,
        }
    }
}

/// The rows of one payload.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    /// A cluster, and true if it passes the filter.
    Cluster(Box<cluster::Model>, bool),
    /// Clusters.
    Clusters(Vec<cluster::Model>),
    /// Computations.
    Computations(Vec<computation::Model>),
    /// Errors.
    Errors(Vec<error_occurrence::Model>),
    /// Events.
    Events(Vec<event::Model>),
    /// Log lines.
    Logs(Vec<log_line::Model>),
    /// Alerts.
    Alerts(Vec<alert::Model>),
    /// Error groups that pass the filter, and those that do not because of their status.
    ErrorGroups(Vec<error_group::Model>, Vec<error_group::Model>),
}

/// The content of one payload.
#[derive(Clone, Debug)]
pub(crate) struct PayloadContent {
    /// The position of a subscriber after this payload.
    pub(crate) cursor: String,
    /// The rows that were read.
    pub(crate) rows: Rows,
}

/// The purpose for which the field of a subscription is resolved.
pub(super) enum ResolvePurpose {
    /// To check the arguments and store the plan.
    Plan(Arc<OnceLock<SubscriptionPlan>>),
    /// To write the rows that were read.
    Write(Mutex<Option<PayloadContent>>),
}

/// A stream with the payload to write, or an empty stream.
type PayloadStream<T> = BoxStream<'static, T>;

/// Resolves the field of a subscription for the purpose of the request. `plan` checks the arguments, and
/// `build_payload` converts the rows that were read.
async fn resolve<T: Send + 'static>(
    context: &Context<'_>,
    build_payload: impl FnOnce(&AccountScope, PayloadContent) -> Option<T>,
    plan: impl Future<Output = Result<SubscriptionPlan, ApiError>>,
) -> Result<PayloadStream<T>, ApiError> {
    match context.data_unchecked::<ResolvePurpose>() {
        ResolvePurpose::Plan(slot) => {
            // The slot is always empty here: a document has one subscription field, which is planned once.
            let _ = slot.set(plan.await?);
            Ok(stream::empty().boxed())
        }
        ResolvePurpose::Write(slot) => {
            let unwritten = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            let payload = unwritten.and_then(|unwritten| build_payload(scope(context), unwritten));
            Ok(stream::iter(payload).boxed())
        }
    }
}

fn scope<'a>(context: &Context<'a>) -> &'a AccountScope {
    let RequestContext { scope, .. } = schema::request_context(context);
    scope
}

/// Returns the account of the request if it has this short name. Any other account is not found.
fn require_account<'a>(context: &Context<'a>, slug: &str) -> Result<&'a AccountScope, ApiError> {
    let scope = scope(context);
    if scope.account.slug == slug { Ok(scope) } else { Err(ApiError::NotFound("account")) }
}

/// Returns the clusters that the identifiers name.
///
/// # Errors
/// Returns an error if one of them does not exist.
async fn resolve_cluster_ids(
    scope: &AccountScope,
    ids: Option<Vec<ID>>,
) -> Result<Option<Vec<ClusterId>>, ApiError> {
    let Some(ids) = ids else { return Ok(None) };
    check_max_len("ids", Some(&ids), MAX_CLUSTERS)?;
    let numbers = ids.iter().map(|id| Cluster::parse_id(scope, "ids", id));
    let mut numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    if scope.store.clusters_by_id(&numbers).await?.len() < numbers.len() {
        return Err(ApiError::unknown("ids", "cluster"));
    }
    Ok(Some(numbers))
}

/// Returns a cursor of the current position of all streams.
pub(super) async fn current_cursor(scope: &AccountScope) -> Result<String, ApiError> {
    let position = scope.store.start_position(scope.now.into(), None, MAX_RECENT_CLUSTERS).await?;
    Ok(position.cursor(Stream::Any))
}

/// Returns the position from which a stream is resumed.
///
/// # Errors
/// Returns an error if `after` is not a cursor of this stream.
fn parse_position(after: Option<String>, stream: Stream) -> Result<Option<Position>, ApiError> {
    let position = |cursor: String| {
        let invalid = || ApiError::invalid("after", "not a cursor of this subscription");
        Position::parse(&cursor, stream).ok_or_else(invalid)
    };
    after.map(position).transpose()
}
