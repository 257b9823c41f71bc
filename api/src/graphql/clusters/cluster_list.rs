//! The list of clusters: its filter, its order, and the totals over all listed clusters.

use async_graphql::{ComplexObject, Context, Enum, ID, InputObject, InputType, Object, SimpleObject, Value};
use chrono::{DateTime, Utc};
use entity::ids::ClusterId;

use super::{
    cluster::Cluster, cluster_state::ClusterState, cluster_tag::ClusterTagFilter, facet::ClusterFacets,
};
use crate::{
    domain::cost::{Currency, RateCard},
    graphql::{
        access::user::User,
        alerts::flag::{FlagKind, MAX_KINDS},
        costs::usage::{Usage, UsageScope},
        engine::{
            argument::{RANGE_FROM_AFTER_TO, check_max_len, check_range_of},
            connection::{Connection, RequestedPage, total_count_by},
            error::{ApiError, NullOnError},
            scalar::BigInt,
            scope::{AccountScope, QuotaKind},
        },
    },
    store::{self, ClusterSort, ClusterSortBy, CostAtLeast, FlaggedFilter, VersionFilter},
};

/// The maximum number of users in a filter. Each becomes a parameter of the statement.
const MAX_USERS: usize = 100;

/// The maximum number of characters of a text to search for.
const MAX_TEXT: usize = 200;

/// The maximum number of seconds in a filter. It is longer than any cluster runs, and its milliseconds
/// fit into an `i64`.
const MAX_SECONDS: f64 = 1e12;

/// The maximum amount of money in a filter.
const MAX_AMOUNT: f64 = 1e12;

/// The maximum number of clusters in a filter.
const MAX_IDS: usize = 100;

/// A page of clusters, with the fields that only lists of clusters have.
pub(crate) type ClusterConnection = Connection<Cluster, ClusterListFields>;

/// Conditions on clusters. A cluster has to meet all given conditions.
#[derive(Debug, Default, InputObject)]
pub(crate) struct ClusterFilter {
    /// Only these clusters, by their global identifiers or numbers, at most 100. Deleted clusters are
    /// skipped. An identifier that cannot be a cluster of the account is an error with the code `NOT_FOUND`.
    ids: Option<Vec<ID>>,
    /// Only clusters in one of these states.
    states: Option<Vec<ClusterState>>,
    /// Only clusters that one of these users owns, at most 100 users.
    users: Option<Vec<ID>>,
    /// Only clusters whose scheduler started in this period, by its own clock.
    started_in: Option<TimeRange>,
    /// Only clusters that closed in this period, or that are `LOST` and last reported in it, by their
    /// own clock.
    ended_in: Option<TimeRange>,
    /// Only clusters that report, and that had been without work for at least this number of seconds at
    /// their last report, by their own clock.
    idle_for_seconds: Option<f64>,
    /// Only clusters that ran for at least this number of seconds. Running clusters count up to their
    /// last report.
    min_duration_seconds: Option<f64>,
    /// True for clusters with recorded errors, false for clusters without.
    has_errors: Option<bool>,
    /// Only clusters whose `name` or `schedulerId` contains this text, 1 to 200 characters. The letters
    /// A to Z match in upper and lower case.
    search: Option<String>,
    /// Only clusters whose scheduler has this package installed.
    package: Option<PackageFilter>,
    /// Only clusters whose tags meet these conditions.
    tags: Option<ClusterTagFilter>,
    /// Only clusters that cost at least this amount.
    min_cost: Option<MinCost>,
    /// Only clusters with an active flag of one of these kinds that is not muted, at most 20 kinds.
    flags: Option<Vec<FlagKind>>,
    /// Only clusters that have or had a flag of one of these kinds, muted or not, at most 20 kinds.
    /// Covers the flags that are kept: the newest 100 of a cluster, and ended ones for 90 days or the
    /// account's retention.
    ever_flagged: Option<Vec<FlagKind>>,
}

/// A minimum cost. Costs by the account's rates and estimated costs are added, if they are in the
/// currency. Costs in other currencies do not count.
#[derive(Debug, InputObject)]
pub(crate) struct MinCost {
    /// The amount, in units of the currency, from 0 to 1,000,000,000,000.
    amount: f64,
    /// The currency, as an ISO 4217 code: three capital letters. Null for the currency of the rate that is
    /// valid today.
    currency: Option<String>,
}

/// A period of time. A missing bound leaves it open.
#[derive(Clone, Copy, Debug, InputObject)]
pub(crate) struct TimeRange {
    /// The start of the period, inclusive. Null for no start.
    from: Option<DateTime<Utc>>,
    /// The end of the period, exclusive. Null for no end.
    to: Option<DateTime<Utc>>,
}

/// An installed package, in any version unless one is given.
#[derive(Debug, InputObject)]
pub(crate) struct PackageFilter {
    /// The name of the package, 1 to 200 characters; `python` for Python itself.
    name: String,
    /// The exact version, 1 to 200 characters. Excludes `versionPrefix`.
    version: Option<String>,
    /// The beginning of the version, 1 to 200 characters: `2.1.` matches 2.1.0 and not 2.10. Excludes
    /// `version`.
    version_prefix: Option<String>,
}

/// The order of a list of clusters. Clusters that compare equal are in the order of their `number`.
#[derive(Clone, Debug, Default, InputObject)]
pub(crate) struct ClusterOrder {
    /// The field to order by.
    #[graphql(default)]
    field: ClusterOrderField,
    /// The direction of the order.
    #[graphql(default)]
    direction: OrderDirection,
    /// For the order `COST`, the currency, as an ISO 4217 code: three capital letters. Null for the
    /// currency of the rate that is valid today, or USD without one. An error with the code
    /// `BAD_USER_INPUT` for other orders.
    currency: Option<String>,
}

/// A field to order clusters by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(crate) enum ClusterOrderField {
    /// The time at which the scheduler started.
    #[default]
    StartedAt,
    /// The time at which the cluster closed, or of its last report if it is `LOST`. Clusters that still
    /// report are later than all others.
    EndedAt,
    /// The duration, as in `durationSeconds`.
    Duration,
    /// The thread time that the cluster offered.
    ThreadSeconds,
    /// The compute time of tasks that succeeded.
    ComputeSeconds,
    /// The number of recorded errors.
    Errors,
    /// The number of tasks submitted to the scheduler.
    Tasks,
    /// The time of the last contact with the cluster, by the server's clock.
    LastSeenAt,
    /// The name, without regard to the case of the letters A to Z. Clusters without a name are before all
    /// others.
    Name,
    /// The name of the user, in the same way. Clusters of users who left the account are before all others.
    User,
    /// The share of the thread time in which tasks computed: `computeSeconds` divided by `threadSeconds` of
    /// `totals`. Unlike `Usage.utilization`, it includes the time before the cluster was registered. 0 if one
    /// of them is less than a millisecond.
    Utilization,
    /// The duration without work, as in `idleSeconds`.
    IdleSeconds,
    /// The number of workers as of the last report.
    Workers,
    /// The largest number of workers at a time.
    PeakWorkers,
    /// The memory in use as of the last report.
    MemoryUsed,
    /// The cost in one currency, by the account's rates and by estimates together. Costs in other
    /// currencies do not count.
    Cost,
}

/// A direction of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(crate) enum OrderDirection {
    /// The smallest or earliest first.
    Asc,
    /// The largest or latest first.
    #[default]
    Desc,
}

impl ClusterOrder {
    /// Checks the order and converts it into an order of the store.
    async fn check(&self, scope: &AccountScope) -> Result<ClusterSort, ApiError> {
        if self.field != ClusterOrderField::Cost && self.currency.is_some() {
            return Err(ApiError::invalid("currency", "is allowed only with the order COST"));
        }
        let by = match self.field {
            ClusterOrderField::StartedAt => ClusterSortBy::StartedAt,
            ClusterOrderField::EndedAt => ClusterSortBy::EndedAt,
            ClusterOrderField::Duration => ClusterSortBy::Duration,
            ClusterOrderField::ThreadSeconds => ClusterSortBy::ThreadSeconds,
            ClusterOrderField::ComputeSeconds => ClusterSortBy::ComputeSeconds,
            ClusterOrderField::Errors => ClusterSortBy::Errors,
            ClusterOrderField::Tasks => ClusterSortBy::Tasks,
            ClusterOrderField::LastSeenAt => ClusterSortBy::LastSeenAt,
            ClusterOrderField::Name => ClusterSortBy::Name,
            ClusterOrderField::User => ClusterSortBy::User,
            ClusterOrderField::Utilization => ClusterSortBy::Utilization,
            ClusterOrderField::IdleSeconds => ClusterSortBy::IdleTime,
            ClusterOrderField::Workers => ClusterSortBy::Workers,
            ClusterOrderField::PeakWorkers => ClusterSortBy::PeakWorkers,
            ClusterOrderField::MemoryUsed => ClusterSortBy::MemoryUsed,
            ClusterOrderField::Cost => {
                ClusterSortBy::Cost(parse_currency(scope, scope.rates().await?, self.currency.as_deref())?)
            }
        };
        Ok(ClusterSort { by, descending: self.direction == OrderDirection::Desc })
    }
}

/// Returns a page of the account's clusters that pass a filter.
pub(crate) async fn load_cluster_page(
    scope: &AccountScope,
    filter: ClusterFilter,
    order: ClusterOrder,
    page: RequestedPage,
) -> Result<ClusterConnection, ApiError> {
    let sort = order.check(scope).await?;
    let request = page.request(scope, sort)?;
    let filter = filter.check(scope).await?;
    let page = match sort.by {
        ClusterSortBy::Cost(currency) => {
            let prices = scope.rates().await?.prices(&currency.to_string());
            scope.store.cluster_page_by_cost(&filter, &prices, sort, &request).await?
        }
        _ => scope.store.cluster_page(&filter, sort, &request).await?,
    };
    let list_fields = ClusterListFields { scope: scope.clone(), filter: filter.clone() };
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let (store, filter) = (store.clone(), filter.clone());
        async move { store.cluster_count(&filter).await }
    });
    Ok(Connection::new(page, sort, |row| Cluster::new(scope, row), total).with_fields(list_fields))
}

/// Returns the clusters that pass a filter of another list, and charges the request's quota of searches.
/// `None` if all clusters pass.
pub(crate) async fn resolve_clusters(
    scope: &AccountScope,
    filter: Option<ClusterFilter>,
) -> Result<Option<Vec<ClusterId>>, ApiError> {
    let Some(filter) = filter else { return Ok(None) };
    scope.charge(QuotaKind::Searches, 1)?;
    Ok(scope.store.load_filtered_cluster_ids(&filter.check(scope).await?).await?)
}

impl ClusterFilter {
    /// Checks the filter and converts it into a filter of the store.
    pub(crate) async fn check(self, scope: &AccountScope) -> Result<store::ClusterFilter, ApiError> {
        check_max_len("users", self.users.as_deref(), MAX_USERS)?;
        check_max_len("flags", self.flags.as_deref(), MAX_KINDS)?;
        check_max_len("everFlagged", self.ever_flagged.as_deref(), MAX_KINDS)?;
        let parse_users =
            |users: Vec<ID>| users.iter().map(|user| User::parse_id(scope, "users", user)).collect();
        let users = self.users.map(parse_users).transpose()?;
        if let Some(text) = &self.search {
            check_search_text("search", text)?;
        }
        let cost = match self.min_cost {
            Some(cost) => Some(cost.check(scope, scope.rates().await?)?),
            None => None,
        };
        check_max_len("ids", self.ids.as_deref(), MAX_IDS)?;
        let parse_ids = |ids: Vec<ID>| ids.iter().map(|id| Cluster::parse_id(scope, "ids", id)).collect();
        Ok(store::ClusterFilter {
            ids: self.ids.map(parse_ids).transpose()?,
            states: self.states.map(|states| states.into_iter().map(Into::into).collect()),
            users,
            started_in: TimeRange::range_of_argument("startedIn", self.started_in)?,
            // A cluster that has not ended is in no period, not even in an open one.
            ended_in: match self.ended_in {
                Some(_) => {
                    let (from, to) = TimeRange::range_of_argument("endedIn", self.ended_in)?;
                    (from, to.or(Some(i64::MAX)))
                }
                None => (None, None),
            },
            min_idle_ms: self
                .idle_for_seconds
                .map(|seconds| parse_seconds("idleForSeconds", seconds))
                .transpose()?,
            min_duration_ms: self
                .min_duration_seconds
                .map(|seconds| parse_seconds("minDurationSeconds", seconds))
                .transpose()?,
            has_errors: self.has_errors,
            name_or_scheduler_id: None,
            search: self.search,
            package: self.package.map(PackageFilter::check).transpose()?,
            tags: self.tags.map(ClusterTagFilter::check).transpose()?,
            cost,
            flagged: self.flags.map(|kinds| FlaggedFilter {
                kinds: kinds.into_iter().map(Into::into).collect(),
                at: scope.now.into(),
            }),
            ever_flagged: self.ever_flagged.map(|kinds| kinds.into_iter().map(Into::into).collect()),
        })
    }
}

impl MinCost {
    fn check(&self, scope: &AccountScope, rates: &RateCard) -> Result<CostAtLeast, ApiError> {
        if !(0.0..=MAX_AMOUNT).contains(&self.amount) {
            return Err(ApiError::invalid("amount", format!("must be between 0 and {MAX_AMOUNT}")));
        }
        let currency = parse_currency(scope, rates, self.currency.as_deref())?;
        Ok(CostAtLeast { prices: rates.prices(&currency.to_string()), nanos: (self.amount * 1e9).round() })
    }
}

/// Parses the code of a currency. Without one, returns the currency of the rate that is valid today.
fn parse_currency(scope: &AccountScope, rates: &RateCard, code: Option<&str>) -> Result<Currency, ApiError> {
    let today = scope.now.timestamp().div_euclid(86_400);
    let code = code.map_or_else(|| rates.currency_on(today), str::to_owned);
    let invalid = || ApiError::invalid("currency", "must be three capital letters, as in USD");
    Currency::parse(&code).ok_or_else(invalid)
}

impl TimeRange {
    /// Converts the range of an argument into milliseconds. A missing bound stays open.
    pub(crate) fn range_of_argument(
        argument: &'static str,
        range: Option<Self>,
    ) -> Result<store::TimeRange, ApiError> {
        let Some(range) = range else { return Ok((None, None)) };
        check_range_of(argument, RANGE_FROM_AFTER_TO, range.from, range.to)?;
        Ok(range.milliseconds())
    }

    fn milliseconds(self) -> store::TimeRange {
        // Stored times are whole milliseconds, so a bound within a millisecond equals the next millisecond.
        let round_up = |time: DateTime<Utc>| {
            time.timestamp_millis() + i64::from(!time.timestamp_subsec_nanos().is_multiple_of(1_000_000))
        };
        (self.from.map(round_up), self.to.map(round_up))
    }
}

/// Parses the JSON of a [`TimeRange`] and returns its bounds in milliseconds. `None` for any other JSON.
pub(crate) fn parse_time_range(json: &serde_json::Value) -> Option<store::TimeRange> {
    let value = Value::from_json(json.clone()).ok()?;
    Option::<TimeRange>::parse(Some(value)).ok()?.map(TimeRange::milliseconds)
}

impl PackageFilter {
    fn check(self) -> Result<store::PackageFilter, ApiError> {
        check_search_text("name", &self.name)?;
        let version = match (self.version, self.version_prefix) {
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid(
                    "versionPrefix",
                    "only one of 'version' and 'versionPrefix' can be given",
                ));
            }
            (Some(version), None) => {
                check_search_text("version", &version)?;
                VersionFilter::Is(version)
            }
            (None, Some(prefix)) => {
                check_search_text("versionPrefix", &prefix)?;
                VersionFilter::StartsWith(prefix)
            }
            (None, None) => VersionFilter::Any,
        };
        Ok(store::PackageFilter { name: self.name, version })
    }
}

pub(crate) fn check_search_text(argument: &'static str, text: &str) -> Result<(), ApiError> {
    if !(1..=MAX_TEXT).contains(&text.chars().count()) {
        return Err(ApiError::invalid(argument, format!("must have 1 to {MAX_TEXT} characters")));
    }
    // PostgreSQL accepts no U+0000, and no stored text contains it.
    if text.contains('\0') {
        return Err(ApiError::invalid(argument, "must not contain U+0000"));
    }
    Ok(())
}

fn parse_seconds(argument: &'static str, seconds: f64) -> Result<i64, ApiError> {
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(ApiError::invalid(argument, format!("must be between 0 and {MAX_SECONDS}")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the value was checked to be in range")]
    Ok((seconds * 1e3).ceil() as i64)
}

/// The fields that only lists of clusters have.
#[derive(Clone)]
pub(crate) struct ClusterListFields {
    scope: AccountScope,
    filter: store::ClusterFilter,
}

#[Object]
impl ClusterListFields {
    /// The totals over all clusters that pass the filter, on all pages. Computed only if selected.
    async fn aggregates(&self) -> Result<Totals, ApiError> {
        let totals = self.scope.store.cluster_totals(&self.filter).await?;
        Ok(Totals {
            list_fields: self.clone(),
            clusters: BigInt(totals.clusters),
            thread_seconds: totals.thread_seconds,
            compute_seconds: totals.compute_seconds,
            tasks: BigInt(totals.tasks),
            tasks_succeeded: BigInt(totals.tasks_succeeded),
            tasks_erred: BigInt(totals.tasks_erred),
            workers: BigInt(totals.workers),
            bytes: BigInt(totals.bytes),
            errors: BigInt(totals.errors),
        })
    }

    /// The values by which the list can be filtered further, with the number of clusters of each.
    async fn facets(&self) -> ClusterFacets {
        ClusterFacets { scope: self.scope.clone(), filter: self.filter.clone() }
    }
}

/// Totals over the whole lives of several clusters.
#[derive(SimpleObject)]
#[graphql(complex)]
pub(crate) struct Totals {
    #[graphql(skip)]
    list_fields: ClusterListFields,
    /// The number of clusters.
    clusters: BigInt,
    /// The thread time that the clusters offered, busy or idle, in thread-seconds: threads integrated
    /// over time.
    thread_seconds: f64,
    /// The compute time of tasks that succeeded, in thread-seconds.
    compute_seconds: f64,
    /// The number of tasks submitted to the schedulers.
    tasks: BigInt,
    /// The number of times a task reached the state `memory`. A task that is computed again counts again.
    tasks_succeeded: BigInt,
    /// The number of tasks whose own execution failed. Tasks that failed only because of a dependency are not
    /// counted.
    tasks_erred: BigInt,
    /// The number of workers that ever joined.
    workers: BigInt,
    /// The size of all results produced, in bytes.
    bytes: BigInt,
    /// The number of recorded errors.
    errors: BigInt,
}

#[ComplexObject]
impl Totals {
    /// The resources that the clusters used over their whole lives, and their cost. Summed from the
    /// reported hours, which may lag behind the other totals by one report. One query may request it
    /// five times. Null, with the error code `BAD_USER_INPUT`, if there are more than 10,000 clusters.
    async fn usage(&self, context: &Context<'_>) -> NullOnError<Usage> {
        let ClusterListFields { scope, filter } = &self.list_fields;
        let usage = async { UsageScope::from_hours(scope, filter.clone()).await?.load(scope, context).await };
        Some(usage.await)
    }
}
