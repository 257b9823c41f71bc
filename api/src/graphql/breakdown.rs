//! What work spent, told apart by whatever is asked for: fine performance metrics over any clusters.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use async_graphql::{Enum, Object, SimpleObject, dataloader::Loader};
use entity::{cluster::Model, ids::ClusterId};
use tokio::sync::Semaphore;

use super::{
    cluster::Cluster,
    error::ApiError,
    in_place::{Items, Placed, in_place, in_place_members},
    json::names,
    loaders::Reader,
    scalar::BigInt,
    scope::AccountScope,
    span::range,
    user::User,
    work_scope::WorkScope,
};
use crate::{
    blocking::blocking,
    domain::{
        breakdown::{self, Breakdown, Dimension, Key, Offered, Question, SpanChoice, Work},
        fine_metric::SECONDS,
        millionths::Millionths,
        span::{Spans, thread_milliseconds},
    },
    store::{AccountStore, StoreError, WorkSpan},
};

/// Rows of one answer, unless the query says.
const DEFAULT_ROWS: i32 = 1_000;

/// Rows of one answer at the most.
const MAX_ROWS: i32 = 5_000;

/// Breakdowns that are made at once, for all requests together: the others wait.
static BREAKDOWNS: Semaphore = Semaphore::const_new(4);

/// A breakdown, and what was read for it.
pub(super) struct BrokenDown {
    pub(super) table: breakdown::Table,
    /// How many spans.
    pub(super) spans: usize,
    /// Of how many spans the metrics.
    pub(super) metrics: usize,
}

/// What the chosen spans of some clusters spent.
pub(super) async fn of_clusters(
    store: &AccountStore,
    clusters: &[Model],
    choice: SpanChoice,
    question: Question,
) -> Result<BrokenDown, StoreError> {
    let _turn = BREAKDOWNS.acquire().await.ok();
    let ids: Vec<ClusterId> = clusters.iter().map(|row| row.id).collect();
    let spans_alone = choice.is_some();
    let is_thread_time = question.unit == SECONDS && question.functions.is_none();
    let by_span = [Dimension::Span, Dimension::Tag].iter().any(|dimension| question.by.contains(dimension));
    let spans = if spans_alone || is_thread_time || by_span {
        Some(store.work_spans(&ids, choice).await?)
    } else {
        None
    };
    let threads = if is_thread_time { store.threads_over_time(&ids).await? } else { HashMap::new() };
    let lives: Vec<Life> = clusters.iter().map(Life::of).collect();
    let users = clusters.iter().map(|row| (row.id, row.user_id)).collect();
    let (work, offered) = blocking(move || {
        let offered = spans.as_ref().filter(|_| is_thread_time);
        let offered = offered.map(|spans| offered_by(&lives, spans, &threads, spans_alone));
        let paths = |spans: Vec<WorkSpan>| {
            spans.into_iter().map(|span| ((span.cluster, span.times.id), span.path)).collect()
        };
        let work = Work { clusters: users, spans: spans.map(paths), spans_alone };
        (Arc::new(work), offered.unwrap_or_default())
    })
    .await;
    let (breakdown, metrics) = store.break_down(Arc::clone(&work), Breakdown::new(question)).await?;
    let spans = work.spans.as_ref().map_or(0, HashMap::len);
    let table = blocking(move || breakdown.table(&work, &offered)).await;
    Ok(BrokenDown { table, spans, metrics })
}

/// What is known of a cluster's time.
struct Life {
    cluster: ClusterId,
    /// Until when what is not done was active, in milliseconds: time that no report told of is not made up.
    until: i64,
    /// Thread-seconds it offered in all, if it had tasks.
    worked: Option<f64>,
}

impl Life {
    fn of(row: &Model) -> Self {
        Self {
            cluster: row.id,
            until: row.closed_at.unwrap_or(row.reported_at).timestamp_millis(),
            worked: (row.total_tasks > 0).then_some(row.total_thread_seconds),
        }
    }
}

/// The thread time that each cluster offered while one of the spans was active.
fn offered_by(
    lives: &[Life],
    spans: &[WorkSpan],
    threads: &HashMap<ClusterId, Vec<(i64, i64)>>,
    spans_alone: bool,
) -> HashMap<ClusterId, Offered> {
    let mut by_cluster: HashMap<ClusterId, Vec<_>> = HashMap::new();
    for span in spans {
        by_cluster.entry(span.cluster).or_default().push(span.times);
    }
    let mut offered = |life: &Life| match by_cluster.remove(&life.cluster) {
        Some(spans) => {
            let active = Spans::new(spans).active(life.until);
            let history = threads.get(&life.cluster).map_or(&[][..], Vec::as_slice);
            let offered = thread_milliseconds(&active, history);
            offered.map_or(Offered::Unknown, |time| Offered::Known(Millionths::of_thousandths(time)))
        }
        // Releases of Dask without spans tell of no metrics, either.
        None => match life.worked.filter(|_| !spans_alone) {
            Some(worked) => Offered::WholeLife(Millionths::of(worked)),
            None => Offered::Nothing,
        },
    };
    lives.iter().map(|life| (life.cluster, offered(life))).collect()
}

/// What rows of fine performance metrics are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "FineMetricDimension", remote = "Dimension")]
pub(super) enum FineMetricDimension {
    /// The function or operation.
    Function,
    /// What was done: `thread-cpu`, `disk-read`, or others.
    Activity,
    /// Where in Dask it was measured: `execute`, `p2p`, `gather-dep`, or others.
    Context,
    /// The path of tags of the span, the same for all spans that are named alike.
    Span,
    /// The tags on that path, anywhere. A value counts for each of them, so these rows do not add up.
    Tag,
    /// The cluster.
    Cluster,
    /// The user whose token the cluster reports with.
    User,
}

/// What kind of value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "FineMetricPart", remote = "breakdown::Part")]
pub(super) enum FineMetricPart {
    /// Measured while threads executed tasks: the context `execute`.
    Tasks,
    /// Measured beside the tasks, such as transfers between workers and the memory monitor. Such seconds are no part of
    /// the threads' time, and `p2p` has some of `TASKS` again.
    Beside,
    /// Thread-seconds without a task of this work while at least one of its spans was active: what Dask calls "idle or
    /// other spans".
    Idle,
    /// What was measured of tasks beyond the threads' time, such as metrics of users' own: a value below 0.
    Overcounted,
    /// Thread-seconds of clusters of which nothing was measured: those in which the work was there, or of the whole life
    /// of a cluster that does not tell of spans.
    NotCollected,
}

names!(FineMetricPart);

/// Fine performance metrics of some work, summed by some dimensions.
pub(super) struct FineMetricTable {
    scope: AccountScope,
    clusters: usize,
    table: breakdown::Table,
    first: usize,
}

impl FineMetricTable {
    pub(super) async fn find(
        scope: &AccountScope,
        work: WorkScope,
        by: &[FineMetricDimension],
        unit: String,
        first: Option<i32>,
    ) -> Result<Self, ApiError> {
        let first = range("first", first.unwrap_or(DEFAULT_ROWS), MAX_ROWS)?;
        let work = work.find(scope, "scope").await?;
        let by = by.iter().map(|dimension| (*dimension).into()).collect();
        let table = work.table(scope, by, unit).await?;
        Ok(Self { scope: scope.clone(), clusters: work.clusters.len(), table, first })
    }
}

/// Fine performance metrics of some work, summed by some dimensions. In seconds, what tasks spent and what threads were
/// idle add up to the threads integrated over the time the work was there, exactly.
#[Object]
impl FineMetricTable {
    /// What the values count.
    async fn unit(&self) -> &str {
        &self.table.unit
    }

    /// The units that occur, whichever was asked for: `seconds`, `bytes`, `count`, or others.
    async fn units(&self) -> Vec<&str> {
        self.table.units.iter().map(String::as_str).collect()
    }

    /// How many clusters the scope has.
    async fn clusters(&self) -> BigInt {
        count(self.clusters)
    }

    /// Those of them with the work of which nothing was measured: in seconds, their time is `NOT_COLLECTED`. Told only in
    /// seconds, and not for some functions; 0 otherwise.
    async fn clusters_without_metrics(&self) -> BigInt {
        count(self.table.without_metrics)
    }

    /// Those of them with the work of whose threads nothing is known for its time: they have no `IDLE` part. Told only in
    /// seconds, and not for some functions; 0 otherwise.
    async fn clusters_without_threads(&self) -> BigInt {
        count(self.table.without_threads)
    }

    /// What all rows come to, in `unit`; in seconds without those `BESIDE` the tasks. Where each cluster tells of its
    /// threads, and functions are not chosen, the threads integrated over the time the work was there.
    async fn total(&self) -> f64 {
        self.table.total.value()
    }

    /// Of the total, thread-seconds without a task; null where no cluster tells, for some functions, and in other units.
    async fn idle_seconds(&self) -> Option<f64> {
        self.table.idle.map(Millionths::value)
    }

    /// How many rows there are.
    async fn row_count(&self) -> BigInt {
        count(self.table.rows.len())
    }

    /// The rows, the largest first.
    async fn rows(&self) -> Items<FineMetricSum> {
        let sum = |row: &breakdown::Row| FineMetricSum {
            key: Placed(WorkPart::new(&self.scope, row.key.clone())),
            value: row.value.value(),
            share: row.value.share_of(self.table.total).filter(|_| self.table.counts(row.key.part)),
        };
        Items(self.table.rows.iter().take(self.first).map(sum).collect())
    }
}

/// A sum of fine performance metrics.
#[derive(SimpleObject)]
struct FineMetricSum {
    /// What it is of.
    key: Placed<WorkPart>,
    /// The value, in the table's unit.
    value: f64,
    /// Its share of the table's total, from 0 to 1, or below 0 for `OVERCOUNTED`; null for what is no part of that, and
    /// when there is nothing.
    share: Option<f64>,
}

in_place_members! { FineMetricSum: value, share; key: Placed<WorkPart> }

/// A part of some work, by the dimensions that were asked for.
#[derive(Clone)]
pub(super) struct WorkPart {
    scope: AccountScope,
    key: Key,
}

impl WorkPart {
    pub(super) fn new(scope: &AccountScope, key: Key) -> Self {
        Self { scope: scope.clone(), key }
    }
}

/// A part of some work. What `by` does not name is null, and so is what the part does not have.
#[Object]
impl WorkPart {
    /// What kind of value it is.
    async fn part(&self) -> FineMetricPart {
        self.key.part.into()
    }

    /// The function or operation; for `p2p` where in it.
    async fn function(&self) -> Option<&str> {
        self.key.function.as_deref()
    }

    /// What was done.
    async fn activity(&self) -> Option<&str> {
        self.key.activity.as_deref()
    }

    /// Where in Dask it was measured.
    async fn context(&self) -> Option<&str> {
        self.key.context.as_deref()
    }

    /// The tags from the outermost span to the innermost; null also for what belongs to no span that was reported.
    async fn path(&self) -> Option<&[String]> {
        self.key.path.as_deref()
    }

    /// A tag.
    async fn tag(&self) -> Option<&str> {
        self.key.tag.as_deref()
    }

    /// The cluster.
    async fn cluster(&self) -> Result<Option<Cluster>, ApiError> {
        match self.key.cluster {
            Some(cluster) => Cluster::find(&self.scope, cluster).await,
            None => Ok(None),
        }
    }

    /// The user; null also when the user left the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        match self.key.user {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// Whether it belongs to spans. What a worker does for no task in particular, such as fetching data, and what threads
    /// did without a task, only belong to the cluster.
    async fn span_attributable(&self) -> bool {
        self.key.span_attributable
    }
}

in_place! { WorkPart: part, function, activity, context, path, tag, span_attributable }

/// A number of things in memory.
pub(super) fn count(number: usize) -> BigInt {
    BigInt(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The key of what a cluster spent, by function and activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SpentBy(pub(super) ClusterId);

impl Loader<SpentBy> for Reader {
    type Value = Arc<breakdown::Table>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[SpentBy]) -> Result<HashMap<SpentBy, Self::Value>, Self::Error> {
        let ids: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let clusters = self.0.clusters_by_id(&ids).await?;
        let by = BTreeSet::from([Dimension::Cluster, Dimension::Function, Dimension::Activity]);
        let question = Question { by, unit: SECONDS.to_owned(), functions: None };
        let all = of_clusters(&self.0, &clusters, SpanChoice::default(), question).await?.table;
        let of = |cluster| (SpentBy(cluster), Arc::new(all.of_cluster(cluster)));
        Ok(ids.into_iter().map(of).collect())
    }
}
