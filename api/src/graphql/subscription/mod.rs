//! What can be watched.
//!
//! Nothing in here waits for anything to happen. A subscription's field is resolved for one of two purposes, which come with
//! the request: to look at its arguments, which makes a [`Planned`] of them, and to write one payload of rows that
//! `live/` has read for everybody who asked for the same.

mod append;
mod gap;
mod state;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_graphql::{Context, ID, MergedSubscription};
use entity::{cluster, computation, error_occurrence, event, ids::ClusterId, log_line};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};

pub(super) use self::gap::Gap;
pub(crate) use self::gap::with_gap;
use self::{append::AppendSubscription, state::StateSubscription};
use super::{
    argument::at_most,
    cluster::Cluster,
    error::ApiError,
    schema::{self, RequestContext},
    scope::AccountScope,
};
use crate::{
    bus::Changed,
    domain::position::{Position, Stream},
    store::{AccountComputations, AccountErrors, AccountEvents, AccountLogs, ClusterFilter},
};

/// Clusters that a subscription names at the most.
const MAX_CLUSTERS: usize = 100;

/// Clusters whose last change is too new for a position of all to be behind it, at the most. Of what is left out, what came
/// within a minute comes again.
const MAX_MOVING: u64 = 5_000;

/// What can be watched. A subscription asks for one of these fields. It ends with the credentials it was begun with; every
/// payload has a `cursor` to go on from after a broken connection.
#[derive(MergedSubscription, Default)]
pub(super) struct Subscription(StateSubscription, AppendSubscription);

/// What a subscription wants, whose arguments were looked at.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// What of it.
    pub(crate) wanted: Wanted,
    /// Only of these clusters; of all if none are named.
    pub(crate) clusters: Option<Vec<ClusterId>>,
    /// From where it is resumed; from now on if nowhere.
    pub(crate) after: Option<Position>,
    /// Milliseconds between two rounds of reading.
    pub(crate) pause_ms: u64,
}

/// Rows of one kind that are wanted.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// Clusters that changed, one for each payload.
    Clusters(ClusterFilter),
    /// Clusters that reported, together.
    Snapshots(ClusterFilter),
    /// Computations that began or went on.
    Computations(AccountComputations),
    /// Errors, with some words in their texts if they are given.
    Errors(AccountErrors, Option<String>),
    /// Events.
    Events(AccountEvents),
    /// Lines of logs, with some words in them if they are given.
    Logs(AccountLogs, Option<String>),
}

impl Wanted {
    /// Which stream its cursors are of.
    pub(crate) fn stream(&self) -> Stream {
        match self {
            Self::Clusters(_) => Stream::Clusters,
            Self::Snapshots(_) => Stream::Snapshots,
            Self::Computations(_) => Stream::Computations,
            Self::Errors(..) => Stream::Errors,
            Self::Events(_) => Stream::Events,
            Self::Logs(..) => Stream::Logs,
        }
    }

    /// The changes that bring something of it.
    pub(crate) fn changes(&self) -> Changed {
        match self {
            Self::Clusters(_) => Changed::FIGURES | Changed::FLAGS | Changed::DECISIONS,
            Self::Snapshots(_) => Changed::FIGURES | Changed::SAMPLES,
            Self::Computations(_) => Changed::COMPUTATIONS,
            Self::Errors(..) => Changed::ERRORS,
            Self::Events(_) => Changed::EVENTS,
            Self::Logs(..) => Changed::LOGS,
        }
    }
}

/// Rows that are delivered together.
#[derive(Clone, Debug)]
pub(crate) enum Rows {
    /// A cluster, and whether it passes the filter.
    Cluster(Box<cluster::Model>, bool),
    /// Some clusters.
    Clusters(Vec<cluster::Model>),
    /// Some computations.
    Computations(Vec<computation::Model>),
    /// Some errors.
    Errors(Vec<error_occurrence::Model>),
    /// Some events.
    Events(Vec<event::Model>),
    /// Some lines of logs.
    Logs(Vec<log_line::Model>),
}

/// What one payload is made of.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// How far whoever gets it has read.
    pub(crate) cursor: String,
    /// What was read.
    pub(crate) rows: Rows,
}

/// What a subscription's field is resolved for.
pub(super) enum Purpose {
    /// To look at its arguments.
    Plan(Arc<OnceLock<Planned>>),
    /// To write what was read.
    Deliver(Mutex<Option<Delivery>>),
}

/// A payload, or none when there is nothing to be written yet.
type Payloads<T> = BoxStream<'static, T>;

/// The payload that is to be written, if one is.
fn delivered<T>(
    context: &Context<'_>,
    payload: impl FnOnce(&AccountScope, Delivery) -> Option<T>,
) -> Option<Payloads<T>>
where
    T: Send + 'static,
{
    let Purpose::Deliver(delivery) = context.data_unchecked::<Purpose>() else { return None };
    let delivery = delivery.lock().unwrap_or_else(PoisonError::into_inner).take();
    let payload = delivery.and_then(|delivery| payload(scope(context), delivery));
    Some(stream::iter(payload).boxed())
}

/// Takes down what is wanted. Nothing is written.
fn planned<T: Send + 'static>(context: &Context<'_>, planned: Planned) -> Payloads<T> {
    if let Purpose::Plan(slot) = context.data_unchecked::<Purpose>() {
        // A document has one field that is planned, and is planned once.
        let _ = slot.set(planned);
    }
    stream::empty().boxed()
}

fn scope<'a>(context: &Context<'a>) -> &'a AccountScope {
    let RequestContext { scope, .. } = schema::request(context);
    scope
}

/// The account that is asked for. What the viewer did not sign in to is as if it did not exist.
fn account<'a>(context: &Context<'a>, slug: &str) -> Result<&'a AccountScope, ApiError> {
    let scope = scope(context);
    if scope.account.slug == slug { Ok(scope) } else { Err(ApiError::NotFound("account")) }
}

/// The clusters that are named, all of which have to exist.
async fn named(scope: &AccountScope, ids: Option<Vec<ID>>) -> Result<Option<Vec<ClusterId>>, ApiError> {
    let Some(ids) = ids else { return Ok(None) };
    at_most("ids", Some(&ids), MAX_CLUSTERS)?;
    let numbers = ids.iter().map(|id| Cluster::identified(scope, "ids", id));
    let mut numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    if scope.store.clusters_by_id(&numbers).await?.len() < numbers.len() {
        return Err(ApiError::unknown("ids", "cluster"));
    }
    Ok(Some(numbers))
}

/// Where all streams are now.
pub(super) async fn position_now(scope: &AccountScope) -> Result<String, ApiError> {
    let position = scope.store.position_at(scope.now.into(), None, MAX_MOVING).await?;
    Ok(position.cursor(Stream::Any))
}

/// From where a stream is resumed.
fn resumed(after: Option<String>, stream: Stream) -> Result<Option<Position>, ApiError> {
    let position = |cursor: String| {
        let wrong = || ApiError::invalid("after", "not a cursor of this subscription");
        Position::parse(&cursor, stream).ok_or_else(wrong)
    };
    after.map(position).transpose()
}
