//! The GraphQL type of a cluster. Every scheduler process is one cluster.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};
use entity::{
    cluster::{Model, Status},
    ids::{AccountId, ClusterId},
};

use super::{
    client::Client,
    cluster_fields::ClusterFields,
    cluster_list::TimeRange,
    cluster_note::ClusterNotes,
    cluster_snapshot::ClusterSnapshot,
    cluster_tag::{self, Tag},
    dropped_items::DroppedItems,
    environment::{Environment, PackageMismatch, load_mismatches},
    facet::EventListFields,
    latest_value::ClusterMeasurements,
    thread_change::ThreadChange,
    worker::Worker,
};
use crate::{
    domain::life_cycle,
    graphql::{
        access::{permission::ClusterPermissions, user::User},
        accounts::{account::Account, data_policy::PrivacyReceipt},
        alerts::flag::{self, Flag, FlagKind},
        analysis::{answer::Answers, idleness::ClusterIdleness},
        computations::{
            computation::Computation,
            fine_metric::{FineMetricArguments, FineMetrics},
            function::{self, Function},
            function_activity::{self, FunctionActivity},
            lost_attempt::ClusterLosses,
            profile::{Profile, ProfileArguments},
            span::{self, Span},
            task_group::TaskGroup,
            task_group_list::{TaskGroupFilter, TaskGroupOrder, load_task_groups},
        },
        costs::{cluster_cost::ClusterCost, usage::hour_range},
        engine::{
            argument::{check_max_len, check_text_list},
            connection::{Connection, PageArguments, SummaryFields, load_connection},
            error::{ApiError, NullOnError},
            id::GlobalId,
            projection::{Inline, InlineList, inline_fields},
            scope::AccountScope,
        },
        errors::error_occurrence::ErrorOccurrence,
        telemetry::{
            event::{Event, EventConnection},
            log_line::{LogArguments, LogConnection, LogSource, load_logs},
            series::{SampleMetric, Series, SeriesArguments, WindowArguments},
        },
    },
    store::{
        ClientSort, ComputationParent, ComputationSort, ErrorParent, ErrorSort, EventParent, EventSort,
        FacetRows, SeriesParent, SpanParent, SpanSort, TaskGroupParent, ThreadChangeSort, WorkerParent,
        WorkerSort,
    },
};

/// A Dask cluster: everything that one scheduler process did, while it runs and after it ended.
pub(crate) struct Cluster {
    scope: AccountScope,
    row: Model,
}

impl Cluster {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(crate) async fn find(scope: &AccountScope, id: ClusterId) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    /// Parses an identifier as [`Self::parse_id_of_account`] does.
    pub(crate) fn parse_id_or_number(scope: &AccountScope, id: &ID) -> Option<ClusterId> {
        Self::parse_id_of_account(scope.account.id, id)
    }

    /// Parses a global identifier of a cluster of the account, or a `number`. Returns `None` for any other
    /// text.
    pub(crate) fn parse_id_of_account(account: AccountId, id: &ID) -> Option<ClusterId> {
        match GlobalId::parse(id) {
            Some(GlobalId::Cluster(of, cluster)) if of == account => Some(cluster),
            Some(_) => None,
            None => id.parse().ok(),
        }
    }

    /// Parses the global identifier or the `number` of a cluster in an argument. Returns an error if it
    /// cannot be a cluster of the account.
    pub(crate) fn parse_id(
        scope: &AccountScope,
        argument: &'static str,
        id: &ID,
    ) -> Result<ClusterId, ApiError> {
        Self::parse_id_or_number(scope, id).ok_or(ApiError::unknown(argument, "cluster"))
    }

    /// Returns the global identifier, as the resolver of the interface `Node` requires it.
    pub(crate) async fn id(&self, context: &Context<'_>) -> async_graphql::Result<ID> {
        ClusterFields(&self.row).id(context).await
    }

    /// Returns the cluster that a row of this account refers to.
    pub(crate) async fn load_existing(scope: &AccountScope, id: ClusterId) -> Result<Self, ApiError> {
        Self::find(scope, id).await?.ok_or(ApiError::NotFound("cluster"))
    }
}

/// A Dask cluster: everything that one scheduler process did, while it runs and after it ended.
#[Object]
impl Cluster {
    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn row_fields(&self) -> ClusterFields<'_> {
        ClusterFields(&self.row)
    }

    /// The account of the cluster.
    async fn account(&self) -> Account {
        Account(self.scope.clone())
    }

    /// The owner of the cluster: the user with whose credentials it reports. Null if the user left the
    /// account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        match self.row.user_id {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn idleness(&self) -> ClusterIdleness<'_> {
        ClusterIdleness::new(&self.scope, &self.row)
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn losses(&self) -> ClusterLosses<'_> {
        ClusterLosses::new(&self.scope, &self.row)
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn permissions(&self) -> ClusterPermissions<'_> {
        ClusterPermissions::new(&self.scope, &self.row)
    }

    /// The tags that users gave the cluster, ordered by key.
    async fn tags(&self) -> Result<Vec<Tag>, ApiError> {
        cluster_tag::load_tags(&self.scope, self.row.id).await
    }

    /// The notes that users wrote about the cluster. Null if there are none.
    async fn notes(&self) -> Result<Option<ClusterNotes>, ApiError> {
        ClusterNotes::find(&self.scope, self.row.id).await
    }

    /// The size of the cluster as of its last report. Null once it closed or is `LOST`.
    async fn now(&self) -> Option<Inline<ClusterSnapshot>> {
        (self.row.status == Status::Running).then(|| Inline(ClusterSnapshot::from(&self.row)))
    }

    /// The number of items of each kind that the cluster's reporter discarded before sending them, because
    /// too many were pending at once. `privacy` counts the items that settings and policies excluded.
    async fn dropped(&self) -> Inline<DroppedItems> {
        Inline(DroppedItems::new(&self.row))
    }

    /// The fields of the cluster's reports whose values were impossible, such as `usage.thread_seconds` or
    /// `events.at`: times more than one day ahead of their arrival, and more usage in an hour than the
    /// threads allow. They were limited to possible values before they were stored. It contains
    /// `usage.total_compute_seconds` if the compute time of all hours together exceeds the thread time; the
    /// excess does not count. Empty if there were none.
    async fn clamped_fields(&self) -> &[String] {
        &self.row.cut.0
    }

    /// The answers to questions about the cluster.
    async fn answers(&self) -> Answers {
        Answers::new(&self.scope, &self.row)
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn cost(&self) -> ClusterCost<'_> {
        ClusterCost::new(&self.scope, &self.row)
    }

    /// The flags of the cluster, the active ones first, then the most recently ended. At most 100 are
    /// kept.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn flags(
        &self,
        #[graphql(desc = "True for active flags only, false for ended ones only. Null for all.")]
        active: Option<bool>,
        #[graphql(desc = "Only these kinds of flag, at most 20. Null for all.")] kinds: Option<Vec<FlagKind>>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Flag>, ApiError> {
        let page = PageArguments { first, after, last, before };
        flag::load_cluster_flags(&self.scope, self.row.id, flag::flag_filter(active, kinds)?, page).await
    }

    /// The resources that each function used, and their cost, the longest compute time first.
    async fn functions(
        &self,
        #[graphql(desc = "The number of functions, 1 to 1,000.", default = 100)] first: i32,
        #[graphql(desc = "Only usage in hours that begin at this time or later.")] from: Option<
            DateTime<Utc>,
        >,
        #[graphql(desc = "Only usage in hours that begin before this time.")] to: Option<DateTime<Utc>>,
    ) -> Result<InlineList<Function>, ApiError> {
        let hours = hour_range(from, to)?;
        function::load_functions_of_cluster(&self.scope, self.row.id, hours, first).await.map(InlineList)
    }

    /// The computations submitted to the cluster, the newest first.
    async fn computations(
        &self,
        context: &Context<'_>,
        #[graphql(
            desc = "Only computations that ran at some time in this period, by the scheduler's clock. Null for \
                    all."
        )]
        during: Option<TimeRange>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Computation>, ApiError> {
        let page = PageArguments { first, after, last, before }.with_summary_columns::<Computation>(context);
        let during = TimeRange::range_of_argument("during", during)?;
        let parent = ComputationParent { cluster: self.row.id, during };
        load_connection(&self.scope, parent, ComputationSort::NewestFirst, page, Computation::new).await
    }

    /// The task groups of the cluster, in the order in which they were first seen.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn task_groups(
        &self,
        context: &Context<'_>,
        #[graphql(
            desc = "Only task groups that pass this filter. With a filter or an order, all task groups are \
                    examined; one query may request 50 such pages. Null for all task groups."
        )]
        filter: Option<TaskGroupFilter>,
        #[graphql(desc = "The order of the list. Null for the order in which they were first seen.")]
        order_by: Option<TaskGroupOrder>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<TaskGroup>, ApiError> {
        let page = PageArguments { first, after, last, before }.with_summary_columns::<TaskGroup>(context);
        load_task_groups(&self.scope, TaskGroupParent::Cluster(self.row.id), filter, order_by, page).await
    }

    /// The failed tasks of the cluster, the newest first.
    async fn errors(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Only errors that occurred within this period, by the scheduler's clock.")]
        at: Option<TimeRange>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ErrorOccurrence>, ApiError> {
        let page =
            PageArguments { first, after, last, before }.with_summary_columns::<ErrorOccurrence>(context);
        let parent = ErrorParent::Cluster(self.row.id, TimeRange::range_of_argument("at", at)?);
        load_connection(&self.scope, parent, ErrorSort::NewestFirst, page, ErrorOccurrence::new).await
    }

    /// The events that Dask or a user logged with `log_event`, the oldest first.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn events(
        &self,
        #[graphql(desc = "Only events of one of these topics, at most 100. Null for all topics.")]
        topics: Option<Vec<String>>,
        #[graphql(desc = "Only events that occurred within this period, by the scheduler's clock.")]
        at: Option<TimeRange>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<EventConnection, ApiError> {
        let page = PageArguments { first, after, last, before };
        check_text_list("topics", topics.as_deref(), 100)?;
        let parent =
            EventParent { cluster: self.row.id, at: TimeRange::range_of_argument("at", at)?, topics };
        let events = FacetRows::OfCluster(parent.clone());
        let fields = EventListFields { scope: self.scope.clone(), events };
        let events = load_connection(&self.scope, parent, EventSort::OldestFirst, page, Event::new).await?;
        Ok(events.with_fields(fields))
    }

    /// The log lines of the scheduler, the workers and the nannies, the oldest first. With `match`, one
    /// page examines at most 1,000 lines, and `totalCount` counts the lines to examine. A line that
    /// cannot be decrypted matches no text. One query may request at most 50 pages with `match`.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn logs(
        &self,
        #[graphql(
            desc = "Only lines of one of these levels, such as `WARNING`, at most 20. Null for all levels."
        )]
        levels: Option<Vec<String>>,
        #[graphql(desc = "Only lines of these kinds of process, at most 20. Null for all.")] sources: Option<
            Vec<LogSource>,
        >,
        #[graphql(desc = "Only lines of the worker with this global identifier or UUID, and of its nanny.")]
        worker_id: Option<ID>,
        #[graphql(name = "match", desc = "Only lines that contain this text, in upper or lower case.")]
        search_text: Option<String>,
        #[graphql(desc = "Only lines written in this period, by the clock of their process.")] at: Option<
            TimeRange,
        >,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<LogConnection, ApiError> {
        let page = PageArguments { first, after, last, before };
        check_text_list("levels", levels.as_deref(), 20)?;
        check_max_len("sources", sources.as_deref(), 20)?;
        let at = TimeRange::range_of_argument("at", at)?;
        let arguments = LogArguments { at, levels, sources, worker_id, search_text };
        load_logs(&self.scope, self.row.id, arguments, page).await
    }

    /// The number of items of each class of data that were sent, withheld and dropped.
    async fn privacy(&self) -> Result<PrivacyReceipt, ApiError> {
        PrivacyReceipt::load(&self.scope, &self.row.receipt).await
    }

    /// The software that the scheduler runs on. Null if it was not reported.
    async fn environment(&self) -> Result<Option<Environment>, ApiError> {
        Environment::find(&self.scope, self.row.id, self.row.environment_id).await
    }

    /// The packages, and Python itself as `python`, that do not have the same version on the scheduler
    /// and on all workers and clients that the cluster ever had, ordered by name.
    async fn environment_mismatches(&self) -> Result<Vec<PackageMismatch>, ApiError> {
        load_mismatches(&self.scope, self.row.id, self.row.environment_id).await
    }

    /// All worker processes that the cluster ever had, in the order in which they joined.
    async fn workers(
        &self,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
        #[graphql(
            desc = "True for workers that had not left by the last report, false for those that had. Null \
                    for all."
        )]
        alive: Option<bool>,
    ) -> Result<Connection<Worker>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let parent = WorkerParent { cluster: self.row.id, alive };
        load_connection(&self.scope, parent, WorkerSort::OldestFirst, page, Worker::new).await
    }

    /// All clients that were ever connected to the cluster, in the order in which they connected.
    async fn clients(
        &self,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Client>, ApiError> {
        let page = PageArguments { first, after, last, before };
        load_connection(&self.scope, self.row.id, ClientSort::OldestFirst, page, Client::new).await
    }

    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn measurements(&self) -> ClusterMeasurements<'_> {
        ClusterMeasurements::new(&self.scope, &self.row)
    }

    /// The changes of the number of threads, the first one first.
    async fn thread_history(
        &self,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ThreadChange>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let sort = ThreadChangeSort::OldestFirst;
        load_connection(&self.scope, self.row.id, sort, page, |_, row| ThreadChange::from(row)).await
    }

    /// The measurements of the cluster as a whole over time. Null, with the error code `BAD_USER_INPUT`,
    /// if the result is too large for one response.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn series(
        &self,
        #[graphql(desc = "The metrics. The result has one series for each of them, in this order.")]
        metrics: Vec<SampleMetric>,
        #[graphql(
            desc = "The start of the period, by the scheduler's clock. Null for the cluster's start, but \
                    at most 31 days before the end."
        )]
        from: Option<DateTime<Utc>>,
        #[graphql(
            desc = "The length of the period before `to`, in seconds, 1 to 2,678,400 (31 days). The period \
                    is extended to the start of its first bucket. Not with `from`."
        )]
        last_seconds: Option<i32>,
        #[graphql(
            desc = "The end of the period, exclusive, by the scheduler's clock. Null for the cluster's \
                    end, or its last report."
        )]
        to: Option<DateTime<Utc>>,
        #[graphql(
            desc = "The width of a bucket, in seconds, at least 1. If null, the smallest width that gives at \
                    most `maxPoints` points."
        )]
        bucket_seconds: Option<i32>,
        #[graphql(desc = "At most this many points, 2 to 2,000. Null for 2,000. Not with `bucketSeconds`.")]
        max_points: Option<i32>,
    ) -> NullOnError<Vec<Series>> {
        let window = WindowArguments { from, last_seconds, to, bucket_seconds, max_points };
        let arguments = SeriesArguments { metrics, window };
        let life = (self.row.started_at.0, life_cycle::last_reported_at(&self.row));
        Some(arguments.load(&self.scope, SeriesParent::Cluster(self.row.id), life).await)
    }

    /// The numbers of threads that functions occupied over time: the compute time of tasks that succeeded, in
    /// intervals of 15 seconds. A task counts in the intervals in which it ran, once it has ended, so the
    /// last minutes still grow. Of a task that ran for more than 24 hours, the last 24 hours count. An
    /// interval has at most 15 seconds for each thread of the cluster. At most 20 functions are known by name
    /// in each ten minutes. Without activity if the reporter or the account refuses the data class `TASKS`.
    /// Null, with the error code `BAD_USER_INPUT`, if the result is too large for one response.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn function_activity(
        &self,
        #[graphql(
            desc = "The start of the period, by the scheduler's clock. Null for the cluster's start, but \
                    at most 31 days before the end."
        )]
        from: Option<DateTime<Utc>>,
        #[graphql(
            desc = "The length of the period before `to`, in seconds, 1 to 2,678,400 (31 days). The period \
                    is extended to the start of its first bucket. Not with `from`."
        )]
        last_seconds: Option<i32>,
        #[graphql(
            desc = "The end of the period, exclusive, by the scheduler's clock. Null for the cluster's \
                    end, or its last report."
        )]
        to: Option<DateTime<Utc>>,
        #[graphql(
            desc = "The width of a bucket, in seconds, a multiple of 15. Null for the smallest width that \
                    gives at most `maxPoints` buckets."
        )]
        bucket_seconds: Option<i32>,
        #[graphql(desc = "At most this many buckets, 2 to 2,000. Null for 2,000. Not with `bucketSeconds`.")]
        max_points: Option<i32>,
        #[graphql(desc = "The number of functions with columns of their own, 1 to 20.", default = 10)]
        first: i32,
    ) -> NullOnError<Inline<FunctionActivity>> {
        let window = WindowArguments { from, last_seconds, to, bucket_seconds, max_points };
        let life = (self.row.started_at.0, life_cycle::last_reported_at(&self.row));
        let found =
            function_activity::load_function_activity(&self.scope, self.row.id, window, life, first).await;
        Some(found.map(Inline))
    }

    /// The spans of the cluster, in the order in which their tasks arrived.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn spans(
        &self,
        #[graphql(desc = "If true, only spans that are not nested in another span of the list.", default)]
        roots: bool,
        #[graphql(
            desc = "Only spans with at least one of these tags anywhere on their path, 1 to 100 tags. Null \
                    for all spans."
        )]
        tags: Option<Vec<String>>,
        #[graphql(
            desc = "Only spans whose first tasks arrived in this period, by the scheduler's clock. Spans \
                    cannot be selected by their end, because the end of a span's descendants is not stored \
                    with the span."
        )]
        enqueued_in: Option<TimeRange>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Span>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let enqueued_in = TimeRange::range_of_argument("enqueuedIn", enqueued_in)?;
        let parent = SpanParent::Cluster(self.row.id, span::span_filter(roots, tags)?, enqueued_in);
        load_connection(&self.scope, parent, SpanSort::OldestFirst, page, Span::new).await
    }

    /// The fine performance metrics of all spans together, and of work that belongs to none. Null if
    /// there are none. Null, with the error code `BAD_USER_INPUT`, if the result is too large for one
    /// response.
    async fn fine_metrics(
        &self,
        #[graphql(desc = "Only values in this unit, such as `seconds` or `bytes`. Null for all.")]
        unit: Option<String>,
        #[graphql(desc = "The maximum number of values, 1 to 5,000. Null for 1,000.")] first: Option<i32>,
        #[graphql(
            desc = "Only values of spans whose first tasks arrived in this period, by the scheduler's clock. \
                    Values have no times of their own, and those of no span are left out. Null for all."
        )]
        enqueued_in: Option<TimeRange>,
    ) -> NullOnError<FineMetrics> {
        let found = async {
            let enqueued_in = TimeRange::range_of_argument("enqueuedIn", enqueued_in)?;
            let arguments = FineMetricArguments { unit, first };
            FineMetrics::load_for_cluster(&self.scope, &self.row, enqueued_in, arguments).await
        };
        found.await.transpose()
    }

    /// The statistical profile of a period, merged from all windows that begin in it. The profiles of
    /// one query merge at most 1,000 windows. Null if there are no windows. Null, with the error code
    /// `KEY_MISSING` or `DAMAGED`, if none of them can be decrypted.
    async fn profile(
        &self,
        #[graphql(desc = "The start of the period, by the scheduler's clock. Null for the cluster's start.")]
        from: Option<DateTime<Utc>>,
        #[graphql(desc = "The end of the period, exclusive. Null for now.")] to: Option<DateTime<Utc>>,
        #[graphql(
            desc = "The minimum share of the samples that a node needs to be included, 0 to 1.",
            default = 0.001
        )]
        min_share: f64,
        #[graphql(
            desc = "Only samples in tasks of these functions, 1 to 100 functions by their `prefix`. Null for all samples."
        )]
        functions: Option<Vec<String>>,
        #[graphql(
            desc = "Only samples on these workers, 1 to 100 global identifiers or UUIDs. Windows without \
                    separate samples of each worker are left out. Null for all samples."
        )]
        workers: Option<Vec<ID>>,
    ) -> NullOnError<Profile> {
        let arguments = ProfileArguments { from, to, min_share, functions, workers };
        Profile::find(&self.scope, self.row.id, arguments).await.transpose()
    }
}

inline_fields! {
    Cluster, rows row as ClusterFields:;
        now: Option<Inline<ClusterSnapshot>>, dropped: Inline<DroppedItems>
}

impl SummaryFields for Cluster {
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
        "viewerCanTag",
        "viewerCanAnnotate",
        "viewerCanKeepAlive",
        "viewerCanStop",
        "viewerCanHandOver",
        "viewerCanDelete",
    ];
}
