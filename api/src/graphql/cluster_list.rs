//! Lists of clusters: which, in what order, and what all of them come to.

use async_graphql::{ComplexObject, Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::ids::ClusterId;

use super::{
    argument::at_most,
    cluster::{Cluster, ClusterState},
    cluster_tag::ClusterTagFilter,
    connection::{Connection, Wanted, counted},
    error::{Alone, ApiError},
    flag::{FlagKind, MAX_KINDS},
    scalar::BigInt,
    scope::{AccountScope, Costly},
    usage::Usage,
    user::User,
};
use crate::{
    domain::cost::{Currency, RateCard},
    store::{self, ClusterSort, ClusterSortBy, CostAtLeast, Flagged, VersionFilter},
};

/// Users a filter names at the most, since each is a value of the statement.
const MAX_USERS: usize = 100;

/// Characters of a text that is searched for.
const MAX_TEXT: usize = 200;

/// Longer than any cluster runs, and far from what is too large for a number of milliseconds.
const MAX_SECONDS: f64 = 1e12;

/// More than anything costs.
const MAX_AMOUNT: f64 = 1e12;

/// Searches that a sum over the hours of very many clusters counts as.
const SUM_OF_HOURS: usize = 10;

/// Clusters that a filter names at the most.
const MAX_IDS: usize = 100;

/// A page of clusters, with what all clusters of the list come to.
pub(super) type ClusterConnection = Connection<Cluster, Aggregates>;

/// Which clusters a list has: those that pass every condition that is given.
#[derive(Debug, Default, InputObject)]
pub(super) struct ClusterFilter {
    /// Only these clusters, by their global identifiers, at most 100. One that is gone is left out; what cannot be one of the
    /// account's is an error.
    ids: Option<Vec<ID>>,
    /// Only clusters in one of these states.
    states: Option<Vec<ClusterState>>,
    /// Only clusters that report with the token of one of these users, at most 100.
    users: Option<Vec<ID>>,
    /// Only clusters whose scheduler started in this time, by its own clock.
    started_in: Option<TimeRange>,
    /// Only clusters that closed in this time, or are LOST and reported last in it, by their own clock.
    ended_in: Option<TimeRange>,
    /// Only clusters that report, and that had no work for at least so many seconds when they last reported, by their own clock.
    idle_for_seconds: Option<f64>,
    /// Only clusters that ran for at least so many seconds; for running ones, as far as they reported.
    min_duration_seconds: Option<f64>,
    /// Only clusters with recorded errors (true), or only those without (false).
    has_errors: Option<bool>,
    /// Only clusters whose `name` or `schedulerId` contains this text, 1 to 200 characters. The letters A to Z are the
    /// same in upper and lower case.
    search: Option<String>,
    /// Only clusters whose scheduler runs on this package.
    package: Option<PackageFilter>,
    /// Only clusters with these tags.
    tags: Option<ClusterTagFilter>,
    /// Only clusters that cost at least so much.
    min_cost: Option<MinCost>,
    /// Only clusters with a flag of one of these kinds, which lasts and is not muted; at most 20.
    flags: Option<Vec<FlagKind>>,
    /// Only clusters that have or had a flag of one of these kinds, muted or not; at most 20. As far as flags are kept: the
    /// newest 100 of a cluster, and those that ended for 90 days or as long as the account says.
    ever_flagged: Option<Vec<FlagKind>>,
}

/// An amount of money that something has to reach. What the account has a rate for and what is estimated count together,
/// as far as either is in the currency; what is in others does not count.
#[derive(Debug, InputObject)]
pub(super) struct MinCost {
    /// The amount, in units of the currency, from 0 to a million million.
    amount: f64,
    /// The currency: three capital letters, by ISO 4217. That of the rate valid today if not given.
    currency: Option<String>,
}

/// A time: from a moment to before another. It is open where one is not given.
#[derive(Clone, Copy, Debug, InputObject)]
pub(super) struct TimeRange {
    /// The first moment.
    from: Option<DateTime<Utc>>,
    /// The moment after the last one.
    to: Option<DateTime<Utc>>,
}

/// A package that is installed: in any version unless one is given.
#[derive(Debug, InputObject)]
pub(super) struct PackageFilter {
    /// Its name, 1 to 200 characters; `python` for Python itself.
    name: String,
    /// Only in exactly this version, 1 to 200 characters.
    version: Option<String>,
    /// Only in versions that begin with this text, 1 to 200 characters: `2.1.` finds 2.1.0 and not 2.10.
    version_prefix: Option<String>,
}

/// How clusters are ordered. Those that are equal come in the order of their `number`.
#[derive(Clone, Debug, Default, InputObject)]
pub(super) struct ClusterOrder {
    /// By what.
    #[graphql(default)]
    field: ClusterOrderField,
    /// In which direction.
    #[graphql(default)]
    direction: OrderDirection,
    /// For the order COST, the currency: three capital letters, by ISO 4217. That of the rate valid today if not given.
    currency: Option<String>,
}

/// By what clusters can be ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(super) enum ClusterOrderField {
    /// When the scheduler started.
    #[default]
    StartedAt,
    /// When it closed, or reported last if it is LOST; clusters that report are later than all of these.
    EndedAt,
    /// How long it ran, as `durationSeconds` tells.
    Duration,
    /// Thread-seconds it offered.
    #[graphql(name = "CLUSTER_SECONDS")]
    ThreadSeconds,
    /// Thread-seconds spent computing tasks that succeeded.
    ComputeSeconds,
    /// Errors recorded.
    Errors,
    /// Tasks the scheduler was given.
    Tasks,
    /// When the server last heard of it.
    LastSeenAt,
    /// What it cost in one currency; estimates and what was paid in it together, and what was paid in others not at all.
    Cost,
}

/// The direction of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Enum)]
pub(super) enum OrderDirection {
    /// Small and early first.
    Asc,
    /// Large and late first.
    #[default]
    Desc,
}

impl ClusterOrder {
    async fn check(&self, scope: &AccountScope) -> Result<ClusterSort, ApiError> {
        if self.field != ClusterOrderField::Cost && self.currency.is_some() {
            return Err(ApiError::invalid("currency", "is for the order COST alone"));
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
            ClusterOrderField::Cost => {
                ClusterSortBy::Cost(currency(scope, scope.rates().await?, self.currency.as_deref())?)
            }
        };
        Ok(ClusterSort { by, descending: self.direction == OrderDirection::Desc })
    }
}

/// A page of the clusters of an account that pass a filter.
pub(super) async fn clusters(
    scope: &AccountScope,
    filter: ClusterFilter,
    order: ClusterOrder,
    page: Wanted,
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
    let aggregates = Aggregates { scope: scope.clone(), filter: filter.clone() };
    let store = scope.store.clone();
    let total = counted(move || {
        let (store, filter) = (store.clone(), filter.clone());
        async move { store.cluster_count(&filter).await }
    });
    Ok(Connection::new(page, sort, |row| Cluster::new(scope, row), total).with(aggregates))
}

/// The clusters that something else is looked for by, which a request may do so often; nothing when that is all of them.
pub(super) async fn passing(
    scope: &AccountScope,
    filter: Option<ClusterFilter>,
) -> Result<Option<Vec<ClusterId>>, ApiError> {
    let Some(filter) = filter else { return Ok(None) };
    scope.take(Costly::Searches, 1)?;
    Ok(scope.store.few_clusters(&filter.check(scope).await?).await?)
}

impl ClusterFilter {
    /// The same as the store asks it.
    pub(super) async fn check(self, scope: &AccountScope) -> Result<store::ClusterFilter, ApiError> {
        at_most("users", self.users.as_deref(), MAX_USERS)?;
        at_most("flags", self.flags.as_deref(), MAX_KINDS)?;
        at_most("everFlagged", self.ever_flagged.as_deref(), MAX_KINDS)?;
        let identified =
            |users: Vec<ID>| users.iter().map(|user| User::identified(scope, "users", user)).collect();
        let users = self.users.map(identified).transpose()?;
        if let Some(text) = &self.search {
            bounded_text("search", text)?;
        }
        let cost = match self.min_cost {
            Some(cost) => Some(cost.check(scope, scope.rates().await?)?),
            None => None,
        };
        at_most("ids", self.ids.as_deref(), MAX_IDS)?;
        let numbered = |ids: Vec<ID>| ids.iter().map(|id| Cluster::identified(scope, "ids", id)).collect();
        Ok(store::ClusterFilter {
            ids: self.ids.map(numbered).transpose()?,
            states: self.states.map(|states| states.into_iter().map(Into::into).collect()),
            users,
            started_in: self.started_in.map_or((None, None), TimeRange::milliseconds),
            // What has not ended is in no time, not even in one that is open.
            ended_in: self.ended_in.map_or((None, None), |range| {
                let (from, to) = range.milliseconds();
                (from, to.or(Some(i64::MAX)))
            }),
            idle_for_ms: self
                .idle_for_seconds
                .map(|time| milliseconds("idleForSeconds", time))
                .transpose()?,
            lasting_ms: self
                .min_duration_seconds
                .map(|time| milliseconds("minDurationSeconds", time))
                .transpose()?,
            has_errors: self.has_errors,
            named: None,
            search: self.search,
            package: self.package.map(PackageFilter::check).transpose()?,
            tags: self.tags.map(ClusterTagFilter::check).transpose()?,
            cost,
            flagged: self.flags.map(|kinds| Flagged {
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
        let currency = currency(scope, rates, self.currency.as_deref())?;
        Ok(CostAtLeast { prices: rates.prices(&currency.to_string()), nanos: (self.amount * 1e9).round() })
    }
}

/// The currency that was given, or that of the rate valid today.
fn currency(scope: &AccountScope, rates: &RateCard, given: Option<&str>) -> Result<Currency, ApiError> {
    let today = scope.now.timestamp().div_euclid(86_400);
    let currency = given.map_or_else(|| rates.currency_on(today), str::to_owned);
    let wrong = || ApiError::invalid("currency", "must be three capital letters, as in USD");
    Currency::parse(&currency).ok_or_else(wrong)
}

impl TimeRange {
    pub(super) fn milliseconds(self) -> store::TimeRange {
        // Times are stored in whole milliseconds, so those from a part of one on begin with the next.
        let whole = |time: DateTime<Utc>| {
            time.timestamp_millis() + i64::from(!time.timestamp_subsec_nanos().is_multiple_of(1_000_000))
        };
        (self.from.map(whole), self.to.map(whole))
    }
}

impl PackageFilter {
    fn check(self) -> Result<store::PackageFilter, ApiError> {
        bounded_text("name", &self.name)?;
        let version = match (self.version, self.version_prefix) {
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid(
                    "versionPrefix",
                    "only one of 'version' and 'versionPrefix' can be given",
                ));
            }
            (Some(version), None) => {
                bounded_text("version", &version)?;
                VersionFilter::Is(version)
            }
            (None, Some(begin)) => {
                bounded_text("versionPrefix", &begin)?;
                VersionFilter::StartsWith(begin)
            }
            (None, None) => VersionFilter::Any,
        };
        Ok(store::PackageFilter { name: self.name, version })
    }
}

fn bounded_text(argument: &'static str, text: &str) -> Result<(), ApiError> {
    if !(1..=MAX_TEXT).contains(&text.chars().count()) {
        return Err(ApiError::invalid(argument, format!("must have 1 to {MAX_TEXT} characters")));
    }
    // PostgreSQL takes no such text, and none is stored.
    if text.contains('\0') {
        return Err(ApiError::invalid(argument, "must not contain U+0000"));
    }
    Ok(())
}

fn milliseconds(argument: &'static str, seconds: f64) -> Result<i64, ApiError> {
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(ApiError::invalid(argument, format!("must be between 0 and {MAX_SECONDS}")));
    }
    #[expect(clippy::cast_possible_truncation, reason = "it has been looked at")]
    Ok((seconds * 1e3).ceil() as i64)
}

/// What a list of clusters has besides its page.
#[derive(Clone)]
pub(super) struct Aggregates {
    scope: AccountScope,
    filter: store::ClusterFilter,
}

/// What a list of clusters has besides its page.
#[Object]
impl Aggregates {
    /// Sums over all clusters that pass the filter, whatever the page. Summed only when asked for.
    async fn aggregates(&self) -> Result<Totals, ApiError> {
        let totals = self.scope.store.cluster_totals(&self.filter).await?;
        Ok(Totals {
            of: self.clone(),
            clusters: BigInt(totals.clusters),
            cluster_seconds: totals.thread_seconds,
            compute_seconds: totals.compute_seconds,
            tasks: BigInt(totals.tasks),
            tasks_succeeded: BigInt(totals.tasks_succeeded),
            tasks_erred: BigInt(totals.tasks_erred),
            workers: BigInt(totals.workers),
            bytes: BigInt(totals.bytes),
            errors: BigInt(totals.errors),
        })
    }
}

/// Sums over the whole lives of some clusters.
#[derive(SimpleObject)]
#[graphql(complex)]
pub(super) struct Totals {
    #[graphql(skip)]
    of: Aggregates,
    /// How many clusters they are.
    clusters: BigInt,
    /// Thread-seconds they offered, busy or idle: threads integrated over time.
    cluster_seconds: f64,
    /// Thread-seconds spent computing tasks that succeeded.
    compute_seconds: f64,
    /// Tasks the schedulers were given.
    tasks: BigInt,
    /// Times a task came to be in memory; a task computed again counts again.
    tasks_succeeded: BigInt,
    /// Tasks that erred themselves, without those that only depend on one.
    tasks_erred: BigInt,
    /// Workers that ever joined.
    workers: BigInt,
    /// Bytes of all results produced.
    bytes: BigInt,
    /// Errors recorded.
    errors: BigInt,
}

#[ComplexObject]
impl Totals {
    /// What they used over their whole lives, and what that cost; null, with an error, where they are more than 10,000. It
    /// goes by the hours they told of, so it may be a report behind the other sums. One query may ask for five of these.
    async fn usage(&self) -> Alone<Usage> {
        let Aggregates { scope, filter } = &self.of;
        let usage = async {
            scope.take(Costly::Searches, SUM_OF_HOURS)?;
            let days = scope.store.usage_by_day(filter).await?;
            Ok(Usage::of_days(scope, days))
        };
        Some(usage.await)
    }
}
