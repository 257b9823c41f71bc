//! Clusters: one per scheduler process.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    cluster::{self, Model, Status},
    ids::ClusterId,
};

use super::{
    account::Account,
    account_list::milliseconds,
    answer::Answers,
    argument::{at_most, texts},
    client::Client,
    cluster_list::TimeRange,
    cluster_note::ClusterNotes,
    cluster_tag::{self, Tag},
    computation::Computation,
    connection::{Connection, Listed, PageArguments, connect},
    data_policy::PrivacyReceipt,
    environment::{Environment, PackageMismatch, mismatches},
    error::{Alone, ApiError},
    error_occurrence::ErrorOccurrence,
    event::Event,
    fine_metric::{FineMetricArguments, FineMetrics},
    flag::{self, Flag, FlagKind},
    function::{self, Function},
    id::GlobalId,
    idleness::ClusterIdleness,
    in_place::{Items, Placed, in_place, in_place_members},
    json::names,
    loaders::ClusterUsage,
    log_line::{LogArguments, LogLine, LogSource, logs},
    profile::{Profile, ProfileArguments},
    scalar::BigInt,
    scope::AccountScope,
    series::{SampleMetric, Series, SeriesArguments},
    span::{self, Span},
    task_group::TaskGroup,
    thread_change::ThreadChange,
    usage::{self, Usage, UsageHour},
    user::User,
    worker::Worker,
};
use crate::{
    domain::{idleness::idle_ms, life_cycle},
    store::{
        ClientSort, ComputationSort, ErrorParent, ErrorSort, EventParent, EventSort, SeriesParent,
        SpanParent, SpanSort, TaskGroupParent, TaskGroupSort, ThreadChangeSort, WorkerParent, WorkerSort,
    },
};

/// A Dask cluster: everything one scheduler process did, live or long gone.
pub(super) struct Cluster {
    scope: AccountScope,
    row: Model,
}

impl Cluster {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(super) async fn find(scope: &AccountScope, id: ClusterId) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    /// The cluster that an argument names, if it may be one of the account's.
    pub(super) fn identified(
        scope: &AccountScope,
        argument: &'static str,
        id: &ID,
    ) -> Result<ClusterId, ApiError> {
        match GlobalId::parse(id) {
            Some(GlobalId::Cluster(account, cluster)) if account == scope.account.id => Ok(cluster),
            _ => Err(ApiError::unknown(argument, "cluster")),
        }
    }

    /// The last moment the scheduler told of, by its clock.
    pub(super) fn last_known(row: &Model) -> DateTime<Utc> {
        row.closed_at.map_or(row.reported_at.0, |closed| closed.0.max(row.reported_at.0))
    }

    fn dropped_of(&self, section: &str) -> BigInt {
        BigInt(self.row.dropped.0.get(section).copied().unwrap_or(0))
    }

    /// The cluster a row of this scope refers to.
    pub(super) async fn of(scope: &AccountScope, id: ClusterId) -> Result<Self, ApiError> {
        Self::find(scope, id).await?.ok_or(ApiError::NotFound("cluster"))
    }
}

/// A Dask cluster: everything one scheduler process did, live or long gone.
#[Object]
impl Cluster {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::Cluster(self.row.account_id, self.row.id).into()
    }

    /// The identifier as an integer, unique in the account and growing with time. REST routes and the `coiled`
    /// client use it.
    async fn number(&self) -> BigInt {
        BigInt(self.row.id.0)
    }

    /// Dask's own identifier of the scheduler process.
    async fn scheduler_id(&self) -> &str {
        &self.row.scheduler_id
    }

    /// The name the cluster manager gave it; null for a scheduler started by itself.
    async fn name(&self) -> Option<&str> {
        self.row.name.as_deref()
    }

    /// Where the scheduler listens.
    async fn address(&self) -> Option<&str> {
        self.row.address.as_deref()
    }

    /// Where Dask's own dashboard is while the cluster lives.
    async fn dashboard_url(&self) -> Option<&str> {
        self.row.dashboard_url.as_deref()
    }

    /// The account it belongs to.
    async fn account(&self) -> Account {
        Account(self.scope.clone())
    }

    /// The user whose token it reports with; null when the user left the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        match self.row.user_id {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// What it is doing, as of its last report.
    async fn state(&self) -> ClusterState {
        life_cycle::State::from(&self.row).into()
    }

    /// What the account wants of it; the scheduler learns it with the answer to its next report.
    async fn desired_state(&self) -> DesiredState {
        self.row.desired_state.into()
    }

    /// When the scheduler process started, by its own clock.
    async fn started_at(&self) -> DateTime<Utc> {
        self.row.started_at.0
    }

    /// When it closed, or reported last if it is LOST, by its own clock; null while it reports.
    async fn ended_at(&self) -> Option<DateTime<Utc>> {
        let lost = (self.row.status == Status::Lost).then_some(self.row.reported_at);
        self.row.closed_at.or(lost).map(|time| time.0)
    }

    /// Seconds from its start until it closed, or until its last report if it has not, by its own clock.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
    async fn duration_seconds(&self) -> f64 {
        self.row.duration_ms as f64 / 1e3
    }

    /// Why it closed, if the scheduler said so.
    async fn close_reason(&self) -> Option<&str> {
        self.row.close_reason.as_deref()
    }

    /// When the server last heard of it, by the server's clock.
    async fn last_seen_at(&self) -> DateTime<Utc> {
        self.row.last_seen_at.0
    }

    /// Since when it had no work, as of the last report; null while it had some.
    async fn idle_since(&self) -> Option<DateTime<Utc>> {
        self.row.idle_since.map(|time| time.0)
    }

    /// For how many seconds it had no work when it last reported, or closed, by its own clock; 0 if it had some.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
    async fn idle_seconds(&self) -> f64 {
        idle_ms(&self.row).unwrap_or(0) as f64 / 1e3
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "what the macro makes of it awaits it")]
    async fn idleness(&self) -> ClusterIdleness<'_> {
        ClusterIdleness::new(&self.scope, &self.row)
    }

    /// What people called it, by key.
    async fn tags(&self) -> Result<Vec<Tag>, ApiError> {
        cluster_tag::tags(&self.scope, self.row.id).await
    }

    /// What people wrote about it; null when they did not.
    async fn notes(&self) -> Result<Option<ClusterNotes>, ApiError> {
        ClusterNotes::of(&self.scope, self.row.id).await
    }

    /// The state of the last report; null once it closed or is LOST.
    async fn now(&self) -> Option<Placed<ClusterSnapshot>> {
        let snapshot = || ClusterSnapshot {
            at: self.row.reported_at.0,
            workers: BigInt(self.row.workers),
            threads: BigInt(self.row.threads),
            memory_used: BigInt(self.row.memory_used_bytes),
            memory_limit: self.row.memory_limit_bytes.map(BigInt),
        };
        (self.row.status == Status::Running).then(|| Placed(snapshot()))
    }

    /// Sums over its whole life.
    async fn totals(&self) -> Placed<ClusterTotals> {
        let row = &self.row;
        Placed(ClusterTotals {
            tasks: BigInt(row.total_tasks),
            tasks_succeeded: BigInt(row.total_tasks_succeeded),
            tasks_erred: BigInt(row.total_tasks_erred),
            errors: BigInt(row.total_errors),
            bytes: BigInt(row.total_bytes),
            workers: BigInt(row.total_workers),
            peak_workers: BigInt(row.peak_workers),
            peak_threads: BigInt(row.peak_threads),
            compute_seconds: row.total_compute_seconds,
            transfer_seconds: row.total_transfer_seconds,
            cluster_seconds: row.total_thread_seconds,
        })
    }

    /// What the reporter had to give up because there was too much of it at once.
    async fn dropped(&self) -> Placed<DroppedItems> {
        Placed(DroppedItems {
            computations: self.dropped_of("computations"),
            task_groups: self.dropped_of("task_groups"),
            errors: self.dropped_of("errors"),
            environments: self.dropped_of("environments"),
            workers: self.dropped_of("workers"),
            clients: self.dropped_of("clients"),
            thread_history: self.dropped_of("thread_history"),
            samples: self.dropped_of("samples"),
            spans: self.dropped_of("spans"),
            fine_metrics: self.dropped_of("fine_metrics"),
            code: self.dropped_of("code"),
            profiles: self.dropped_of("profiles"),
            events: self.dropped_of("events"),
            logs: self.dropped_of("logs"),
            usage: self.dropped_of("usage"),
        })
    }

    /// Answers to the questions people have about it.
    async fn answers(&self) -> Answers {
        Answers::new(&self.scope, &self.row)
    }

    /// What it used over its whole life, and what that cost.
    async fn usage(&self) -> Result<Usage, ApiError> {
        let days = self.scope.loader.load_one(ClusterUsage(self.row.id)).await?.unwrap_or_default();
        Ok(Usage::of_days(&self.scope, days))
    }

    /// The same by the hour, the first hour first. At most 10,000 hours, over all clusters that are asked for; null, with an
    /// error, where they are more.
    async fn usage_hours(
        &self,
        #[graphql(desc = "Only hours that begin at this time or later.")] from: Option<DateTime<Utc>>,
        #[graphql(desc = "Only hours that begin before this time.")] to: Option<DateTime<Utc>>,
    ) -> Alone<Items<UsageHour>> {
        Some(usage::hours(&self.scope, self.row.id, from, to).await.map(Items))
    }

    /// What was noticed of it: what lasts first, and then what ended last. At most 100 are kept.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn flags(
        &self,
        #[graphql(desc = "Only what lasts (true), or only what ended (false).")] active: Option<bool>,
        #[graphql(desc = "Only these kinds, at most 20; all if absent.")] kinds: Option<Vec<FlagKind>>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Flag>, ApiError> {
        let page = PageArguments { first, after, last, before };
        flag::of_cluster(&self.scope, self.row.id, flag::filter(active, kinds)?, page).await
    }

    /// What its functions used and cost, those that computed longest first.
    async fn functions(
        &self,
        #[graphql(desc = "The first so many, 1 to 1,000.", default = 100)] first: i32,
    ) -> Result<Items<Function>, ApiError> {
        function::of_cluster(&self.scope, self.row.id, first).await.map(Items)
    }

    /// What was submitted to it, the newest first.
    async fn computations(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Computation>, ApiError> {
        let page = PageArguments { first, after, last, before }.listed::<Computation>(context);
        connect(&self.scope, self.row.id, ComputationSort::NewestFirst, page, Computation::new).await
    }

    /// Its groups of tasks with the same name, in the order they were first seen.
    async fn task_groups(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<TaskGroup>, ApiError> {
        let page = PageArguments { first, after, last, before }.listed::<TaskGroup>(context);
        let parent = TaskGroupParent::Cluster(self.row.id);
        connect(&self.scope, parent, TaskGroupSort::OldestFirst, page, TaskGroup::new).await
    }

    /// The tasks of it that erred, the newest first.
    async fn errors(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ErrorOccurrence>, ApiError> {
        let page = PageArguments { first, after, last, before }.listed::<ErrorOccurrence>(context);
        let parent = ErrorParent::Cluster(self.row.id);
        connect(&self.scope, parent, ErrorSort::NewestFirst, page, ErrorOccurrence::new).await
    }

    /// What Dask or a user logged with `log_event`, in the order it happened.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn events(
        &self,
        #[graphql(desc = "Only what was published under one of these, at most 100; all if absent.")]
        topics: Option<Vec<String>>,
        #[graphql(desc = "Only what happened in this time, by the scheduler's clock.")] at: Option<TimeRange>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Event>, ApiError> {
        let page = PageArguments { first, after, last, before };
        texts("topics", topics.as_deref(), 100)?;
        let parent = EventParent { cluster: self.row.id, at: milliseconds(at), topics };
        connect(&self.scope, parent, EventSort::OldestFirst, page, Event::new).await
    }

    /// Lines of the logs of its scheduler, workers and nannies, in the order they were written. With `match`, one
    /// page reads at most 1,000 lines: it may hold fewer lines than asked for, or none, while `hasNextPage` (with
    /// `last`, `hasPreviousPage`) says that there is more to search and the cursor where to go on. `totalCount`
    /// counts the lines that are searched; one that cannot be decrypted matches nothing. One query may search 50 pages.
    #[expect(clippy::too_many_arguments, reason = "each is one of the field's")]
    async fn logs(
        &self,
        #[graphql(desc = "Only lines of one of these levels, as `WARNING`, at most 20; all if absent.")]
        levels: Option<Vec<String>>,
        #[graphql(desc = "Only lines of these kinds of process, at most 20; all if absent.")] sources: Option<
            Vec<LogSource>,
        >,
        #[graphql(desc = "Only lines of the worker with this UUID, and of its nanny.")] worker_id: Option<ID>,
        #[graphql(name = "match", desc = "Only lines that contain this text, in upper or lower case.")]
        words: Option<String>,
        #[graphql(desc = "Only what was written in this time, by the clock of its process.")] at: Option<
            TimeRange,
        >,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<LogLine>, ApiError> {
        let page = PageArguments { first, after, last, before };
        texts("levels", levels.as_deref(), 20)?;
        at_most("sources", sources.as_deref(), 20)?;
        let arguments = LogArguments { at: milliseconds(at), levels, sources, worker_id, words };
        logs(&self.scope, self.row.id, arguments, page).await
    }

    /// What was sent, kept back and dropped of each class of its data.
    async fn privacy(&self) -> Result<PrivacyReceipt, ApiError> {
        PrivacyReceipt::of(&self.scope, &self.row.receipt).await
    }

    /// The software the scheduler runs on; null when it did not tell.
    async fn environment(&self) -> Result<Option<Environment>, ApiError> {
        Environment::find(&self.scope, self.row.id, self.row.environment_id).await
    }

    /// Packages, and Python itself as `python`, of which the scheduler and all workers and clients it ever had do
    /// not have the same version; by name.
    async fn environment_mismatches(&self) -> Result<Vec<PackageMismatch>, ApiError> {
        mismatches(&self.scope, self.row.id, self.row.environment_id).await
    }

    /// The worker processes it ever had, in the order they joined.
    async fn workers(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
        #[graphql(
            desc = "Only those that had not left by the last report (true), or only those that had (false)."
        )]
        alive: Option<bool>,
    ) -> Result<Connection<Worker>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let parent = WorkerParent { cluster: self.row.id, alive };
        connect(&self.scope, parent, WorkerSort::OldestFirst, page, Worker::new).await
    }

    /// The clients that ever were connected to it, in the order they connected.
    async fn clients(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Client>, ApiError> {
        let page = PageArguments { first, after, last, before };
        connect(&self.scope, self.row.id, ClientSort::OldestFirst, page, Client::new).await
    }

    /// How many threads it had since when, the first change first.
    async fn thread_history(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ThreadChange>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let sort = ThreadChangeSort::OldestFirst;
        connect(&self.scope, self.row.id, sort, page, |_, row| ThreadChange::from(row)).await
    }

    /// What was measured of it as a whole, over time; null, with an error, where it would be too much for one answer.
    async fn series(
        &self,
        #[graphql(desc = "What was measured; the answer has one series for each, in this order.")]
        metrics: Vec<SampleMetric>,
        #[graphql(
            desc = "From when on, by the scheduler's clock; from the start if not given, but at most 31 days."
        )]
        from: Option<DateTime<Utc>>,
        #[graphql(
            desc = "Until before when, by the scheduler's clock; until the end, or the last report, if not given."
        )]
        to: Option<DateTime<Utc>>,
        #[graphql(
            desc = "Seconds summed up in one point, at least 1; as few as make at most 2,000 points if not given."
        )]
        bucket_seconds: Option<i32>,
    ) -> Alone<Vec<Series>> {
        let arguments = SeriesArguments { metrics, from, to, bucket_seconds };
        let life = (self.row.started_at.0, Self::last_known(&self.row));
        Some(arguments.read(&self.scope, SeriesParent::Cluster(self.row.id), life).await)
    }

    /// Its spans, in the order their tasks arrived.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn spans(
        &self,
        #[graphql(desc = "Only spans that lie in no other one of the list.", default)] roots: bool,
        #[graphql(
            desc = "Only spans with at least one of these tags anywhere on their path, 1 to 100 of them."
        )]
        tags: Option<Vec<String>>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Span>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let parent = SpanParent::Cluster(self.row.id, span::filter(roots, tags)?);
        connect(&self.scope, parent, SpanSort::OldestFirst, page, Span::new).await
    }

    /// Fine performance metrics of all spans together and of what belongs to none; null when there are none, and null, with
    /// an error, where they would be too much for one answer.
    async fn fine_metrics(
        &self,
        #[graphql(desc = "Only values in this unit, such as `seconds` or `bytes`.")] unit: Option<String>,
        #[graphql(desc = "At most so many values, 1 to 5000; 1000 unless given.")] first: Option<i32>,
    ) -> Alone<FineMetrics> {
        FineMetrics::of_cluster(&self.scope, self.row.id, FineMetricArguments { unit, first })
            .await
            .transpose()
    }

    /// The statistical profile of a time: all windows that begin in it, merged. Null when there is none, and null,
    /// with an error, when none of them can be decrypted. The profiles of one query merge 1,000 windows at the most.
    async fn profile(
        &self,
        #[graphql(desc = "From when on, by the scheduler's clock; from its start unless given.")]
        from: Option<DateTime<Utc>>,
        #[graphql(desc = "Before when; until now unless given.")] to: Option<DateTime<Utc>>,
        #[graphql(
            desc = "Leave out what was part of a smaller share of the samples than this, 0 to 1.",
            default = 0.001
        )]
        min_share: f64,
    ) -> Alone<Profile> {
        Profile::find(&self.scope, self.row.id, ProfileArguments { from, to, min_share }).await.transpose()
    }
}

in_place! {
    Cluster: id, number, scheduler_id, name, address, dashboard_url, state, desired_state, started_at, ended_at,
        duration_seconds, close_reason, last_seen_at, idle_since, idle_seconds;
        now: Option<Placed<ClusterSnapshot>>, totals: Placed<ClusterTotals>, dropped: Placed<DroppedItems>
}

impl Listed for Cluster {
    const FIELDS: &'static [&'static str] = &[
        "id",
        "number",
        "schedulerId",
        "name",
        "account",
        "user",
        "state",
        "desiredState",
        "startedAt",
        "endedAt",
        "durationSeconds",
        "lastSeenAt",
        "idleSince",
        "idleSeconds",
        "totals",
        "tags",
        "notes",
        "usage",
        "flags",
    ];
}

/// What a cluster is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "life_cycle::State")]
pub(super) enum ClusterState {
    /// It is less than ten minutes old, and no worker has joined or no work has come yet.
    Starting,
    /// It has work.
    Running,
    /// It has none, since `idleSince`.
    Idle,
    /// It is to stop, as `stopRequest` tells, and has not said goodbye.
    Closing,
    /// It said goodbye.
    Closed,
    /// It has not reported for three of its intervals, and at least 30 seconds, and is given up until it does. Found by a
    /// job that looks every ten seconds.
    Lost,
}

names!(ClusterState);

/// What the account wants of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "cluster::DesiredState")]
pub(super) enum DesiredState {
    /// Carry on.
    Running,
    /// Close the scheduler, and with it its workers.
    Stopped,
}

names!(DesiredState);

/// A cluster at one moment.
#[derive(SimpleObject)]
pub(super) struct ClusterSnapshot {
    /// The moment, by the scheduler's clock.
    at: DateTime<Utc>,
    /// Connected workers.
    workers: BigInt,
    /// Their threads.
    threads: BigInt,
    /// Memory of their processes, in bytes.
    memory_used: BigInt,
    /// Sum of their memory limits, in bytes; null when one has no limit or there is no worker.
    memory_limit: Option<BigInt>,
}

in_place_members! { ClusterSnapshot: at, workers, threads, memory_used, memory_limit }

/// Sums over a cluster's whole life.
#[derive(SimpleObject)]
pub(super) struct ClusterTotals {
    /// Tasks the scheduler was given.
    tasks: BigInt,
    /// Times a task came to be in memory; a task computed again counts again.
    tasks_succeeded: BigInt,
    /// Tasks that erred themselves, without those that only depend on one.
    tasks_erred: BigInt,
    /// Errors recorded.
    errors: BigInt,
    /// Bytes of all results produced.
    bytes: BigInt,
    /// Workers that ever joined.
    workers: BigInt,
    /// Most workers at one time.
    peak_workers: BigInt,
    /// Most threads at one time.
    peak_threads: BigInt,
    /// Thread-seconds spent computing tasks that succeeded.
    compute_seconds: f64,
    /// Seconds spent fetching inputs from other workers.
    transfer_seconds: f64,
    /// Thread-seconds the cluster offered, busy or idle: threads integrated over time.
    cluster_seconds: f64,
}

in_place_members! {
    ClusterTotals: tasks, tasks_succeeded, tasks_erred, errors, bytes, workers, peak_workers, peak_threads,
        compute_seconds, transfer_seconds, cluster_seconds
}

/// What a reporter had to give up.
#[derive(SimpleObject)]
pub(super) struct DroppedItems {
    /// Computations.
    computations: BigInt,
    /// Task groups.
    task_groups: BigInt,
    /// Errors.
    errors: BigInt,
    /// Environments.
    environments: BigInt,
    /// Workers.
    workers: BigInt,
    /// Clients.
    clients: BigInt,
    /// Changes of the number of threads.
    thread_history: BigInt,
    /// Samples.
    samples: BigInt,
    /// Spans.
    spans: BigInt,
    /// Fine metrics of spans.
    fine_metrics: BigInt,
    /// Snippets of code.
    code: BigInt,
    /// Windows of the profile.
    profiles: BigInt,
    /// Events.
    events: BigInt,
    /// Log lines.
    logs: BigInt,
    /// Hours of usage.
    usage: BigInt,
}

in_place_members! {
    DroppedItems: computations, task_groups, errors, environments, workers, clients, thread_history, samples, spans,
        fine_metrics, code, profiles, events, logs, usage
}
