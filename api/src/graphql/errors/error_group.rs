//! The GraphQL type of a group of similar errors, with its trend.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use async_graphql::{Context, Enum, ID, Object, SimpleObject, dataloader::Loader};
use chrono::{DateTime, Utc};
use entity::{
    error_group::{self, Model},
    ids::ErrorGroupId,
};

use super::{error_occurrence::ErrorOccurrence, error_status::ErrorGroupStatus};
use crate::{
    domain::{
        error_status::ErrorStatus,
        histogram::{IntervalLength, Intervals, MAX_INTERVALS},
    },
    graphql::{
        access::user::User,
        clusters::{
            cluster_list::{self, ClusterFilter, TimeRange},
            facet::ErrorGroupListFields,
        },
        engine::{
            argument::{check_range, check_text_list},
            connection::{Connection, PageArguments, load_connection, total_count_by},
            error::{ApiError, NullOnError},
            id::GlobalId,
            json::write_enums_by_name,
            loaders::{ErrorGroupCountsKey, RegressionKey, StoreReader},
            projection::inline_fields,
            scalar::BigInt,
            scope::AccountScope,
        },
    },
    store::{ErrorGroupCounts, ErrorGroupFilter, ErrorGroupSort, ErrorParent, ErrorSort, StoreError},
};

/// A page of error groups, with the fields that only their lists have.
pub(crate) type ErrorGroupConnection = Connection<ErrorGroup, ErrorGroupListFields>;

/// A group of similar errors on all clusters of an account.
pub(crate) struct ErrorGroup {
    scope: AccountScope,
    row: Model,
}

impl ErrorGroup {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(crate) async fn find(scope: &AccountScope, id: ErrorGroupId) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    fn current_status(&self) -> ErrorStatus {
        ErrorStatus::derive(self.row.status, self.row.resolved_until, self.row.last_seen_at)
    }

    async fn counts(&self) -> Result<ErrorGroupCounts, ApiError> {
        Ok(self.scope.loader.load_one(ErrorGroupCountsKey(self.row.id)).await?.unwrap_or_default())
    }
}

/// A group of similar errors on all clusters of the account: the same exception with the same message,
/// except for the data in it, raised at the same place in the program.
#[Object]
impl ErrorGroup {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::ErrorGroup(self.row.account_id, self.row.id).into()
    }

    /// The class of the exception. Null if it is unknown.
    #[graphql(name = "type")]
    async fn exception_type(&self) -> Option<&str> {
        self.row.exception_type.as_deref()
    }

    /// The message, with an ellipsis in place of the parts that differ between errors. Null, with the
    /// error code `KEY_MISSING` or `DAMAGED`, if it cannot be decrypted.
    async fn title(&self) -> NullOnError<String> {
        Some(self.scope.store.error_group_title(&self.row).map_err(ApiError::from))
    }

    /// The origin of the errors.
    async fn origin(&self) -> ErrorOrigin {
        self.row.origin.into()
    }

    /// The time of the first of these errors, by the clock of its scheduler.
    async fn first_seen_at(&self) -> DateTime<Utc> {
        self.row.first_seen_at.0
    }

    /// The time of the last of these errors, by the clock of its scheduler.
    async fn last_seen_at(&self) -> DateTime<Utc> {
        self.row.last_seen_at.0
    }

    /// The triage status of the group.
    async fn status(&self) -> ErrorGroupStatus {
        self.current_status().into()
    }

    /// The time at which a user last set the status, by the server's clock. Null if no user did.
    async fn status_changed_at(&self) -> Option<DateTime<Utc>> {
        self.row.status_changed_at.map(|at| at.0)
    }

    /// The user who last set the status. Null if no user did, or the user left the account.
    async fn status_changed_by(&self) -> Result<Option<User>, ApiError> {
        match self.row.status_changed_by {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// The time of the first of these errors after the group was resolved, by the clock of its
    /// scheduler. Null unless the status is `REGRESSED`.
    async fn regressed_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        if self.current_status() != ErrorStatus::Regressed {
            return Ok(None);
        }
        let first = self.scope.loader.load_one(RegressionKey(self.row.id)).await?;
        // Retention may have deleted the errors themselves.
        Ok(Some(first.unwrap_or(self.row.last_seen_at).0))
    }

    /// True if the viewer may set the status with `setErrorGroupStatus`: for a member, if one of the
    /// group's newest 1,000 errors happened on a cluster of the member.
    async fn viewer_can_triage(&self) -> Result<bool, ApiError> {
        self.scope.can_triage(self.row.id).await
    }

    /// The number of stored errors in the group.
    async fn occurrence_count(&self) -> Result<BigInt, ApiError> {
        Ok(BigInt(self.counts().await?.occurrences))
    }

    /// The number of clusters on which these errors occurred.
    async fn cluster_count(&self) -> Result<BigInt, ApiError> {
        Ok(BigInt(self.counts().await?.clusters))
    }

    /// The number of stored errors of the group in each hour, day or week of a period, by the schedulers'
    /// clocks, the earliest first. Includes buckets without errors. At most 1,000 whole buckets. Null, with
    /// the error code `BAD_USER_INPUT`, if the result is too large for one response.
    async fn trend(
        &self,
        #[graphql(desc = "A time in the first bucket. Null for the last 30 buckets of the period.")]
        from: Option<DateTime<Utc>>,
        #[graphql(
            desc = "The end of the period, exclusive: the last bucket begins before it. Null for now."
        )]
        to: Option<DateTime<Utc>>,
        #[graphql(desc = "The length of a bucket.", default_with = "TrendBucket::Day")] bucket: TrendBucket,
    ) -> NullOnError<Vec<TrendPoint>> {
        let trend = async {
            check_range(from, to)?;
            let milliseconds = |time: DateTime<Utc>| time.timestamp_millis();
            // Errors that occur at this very moment are included.
            let to = to.map_or(self.scope.now.timestamp_millis() + 1, milliseconds);
            let Ok(intervals) = Intervals::new(bucket.into(), from.map(milliseconds), to) else {
                let reason = format!("must not be more than {MAX_INTERVALS} intervals before the end");
                return Err(ApiError::InvalidArgument { argument: "from", reason });
            };
            if !self.scope.charge_points(intervals.count()) {
                return Err(ApiError::LimitExceeded(
                    "the trends of the query have too many points for one response",
                ));
            }
            let counts =
                self.scope.loader.load_one(TrendKey(self.row.id, intervals)).await?.unwrap_or_default();
            let point = |(number, start)| TrendPoint {
                start: DateTime::from_timestamp_millis(start).unwrap_or_default(),
                occurrences: BigInt(counts.get(&number).copied().unwrap_or(0)),
            };
            Ok(intervals.starts().map(point).collect())
        };
        Some(trend.await)
    }

    /// The errors of the group, the newest first.
    async fn occurrences(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ErrorOccurrence>, ApiError> {
        let page =
            PageArguments { first, after, last, before }.with_summary_columns::<ErrorOccurrence>(context);
        let parent = ErrorParent::Group(self.row.id);
        load_connection(&self.scope, parent, ErrorSort::NewestOfAllFirst, page, ErrorOccurrence::new).await
    }
}

/// A length of the periods in which errors are counted. All periods are aligned to the clock in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "IntervalLength")]
pub(crate) enum TrendBucket {
    /// One hour.
    Hour,
    /// One day.
    Day,
    /// Seven days from a Monday on.
    Week,
}

/// The number of errors in one hour, day or week.
#[derive(SimpleObject)]
pub(crate) struct TrendPoint {
    /// The start of the period.
    start: DateTime<Utc>,
    /// The number of errors in the period.
    occurrences: BigInt,
}

/// The key of a group's number of errors by period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TrendKey(ErrorGroupId, Intervals);

impl Loader<TrendKey> for StoreReader {
    type Value = BTreeMap<i64, i64>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[TrendKey]) -> Result<HashMap<TrendKey, Self::Value>, Self::Error> {
        let mut groups_by_intervals: HashMap<Intervals, Vec<ErrorGroupId>> = HashMap::new();
        for TrendKey(group, intervals) in keys {
            groups_by_intervals.entry(*intervals).or_default().push(*group);
        }
        let mut found = HashMap::new();
        for (intervals, groups) in groups_by_intervals {
            let trends = self.0.error_group_trends(&groups, intervals).await?;
            found.extend(trends.into_iter().map(|(group, trend)| (TrendKey(group, intervals), trend)));
        }
        Ok(found)
    }
}

/// The filter of a list of error groups.
pub(crate) struct ErrorGroupArguments {
    pub(crate) clusters: Option<ClusterFilter>,
    pub(crate) origin: Option<ErrorOrigin>,
    pub(crate) types: Option<Vec<String>>,
    pub(crate) last_seen_in: Option<TimeRange>,
    pub(crate) status: Option<Vec<ErrorGroupStatus>>,
}

/// Returns a page of the account's error groups.
pub(crate) async fn load_group_page(
    scope: &AccountScope,
    arguments: ErrorGroupArguments,
    page: PageArguments,
) -> Result<ErrorGroupConnection, ApiError> {
    let sort = ErrorGroupSort::LastSeenFirst;
    let request = page.request(scope, sort)?;
    let ErrorGroupArguments { clusters, origin, types, last_seen_in, status } = arguments;
    check_text_list("types", types.as_deref(), 100)?;
    let filter = ErrorGroupFilter {
        clusters: cluster_list::resolve_clusters(scope, clusters).await?,
        origin: origin.map(Into::into),
        types,
        seen_in: TimeRange::range_of_argument("lastSeenIn", last_seen_in)?,
        statuses: status.map(|statuses| statuses.into_iter().map(Into::into).collect()),
    };
    let page = scope.store.error_group_page(&filter, sort, &request).await?;
    let fields = ErrorGroupListFields { scope: scope.clone(), filter: filter.clone() };
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let (store, filter) = (store.clone(), filter.clone());
        async move { store.error_group_count(&filter).await }
    });
    Ok(Connection::new(page, sort, |row| ErrorGroup::new(scope, row), total).with_fields(fields))
}

inline_fields! {
    ErrorGroup: id, exception_type as "type", title, origin, first_seen_at, last_seen_at, status, status_changed_at
}

/// An origin of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "error_group::Origin")]
pub(crate) enum ErrorOrigin {
    /// The computation's own code raised the error.
    User,
    /// Dask raised the error, for example because a worker was killed or a state was invalid.
    Dask,
    /// The origin is unknown, because neither the type nor the message nor the traceback is known.
    Unknown,
}

write_enums_by_name!(ErrorOrigin);
