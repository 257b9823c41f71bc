//! Groups of errors that look alike.

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

use super::{
    argument::texts,
    cluster_list::{self, ClusterFilter, TimeRange},
    connection::{Connection, PageArguments, connect, counted},
    error::{Alone, ApiError},
    error_occurrence::ErrorOccurrence,
    error_status::ErrorGroupStatus,
    id::GlobalId,
    in_place::in_place,
    json::names,
    loaders::{CountsOf, Reader, RegressionOf},
    scalar::BigInt,
    scope::AccountScope,
    user::User,
};
use crate::{
    domain::{
        error_status::ErrorStatus,
        trend::{MAX_STRETCHES, Step, Stretches},
    },
    store::{ErrorGroupCounts, ErrorGroupFilter, ErrorGroupSort, ErrorParent, ErrorSort, StoreError},
};

/// Errors that look alike, on all clusters of an account.
pub(super) struct ErrorGroup {
    scope: AccountScope,
    row: Model,
}

impl ErrorGroup {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(super) async fn find(scope: &AccountScope, id: ErrorGroupId) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    fn status_now(&self) -> ErrorStatus {
        ErrorStatus::of(self.row.status, self.row.resolved_until, self.row.last_seen_at)
    }

    async fn counts(&self) -> Result<ErrorGroupCounts, ApiError> {
        Ok(self.scope.loader.load_one(CountsOf(self.row.id)).await?.unwrap_or_default())
    }
}

/// Errors that look alike, on all clusters of the account: of the same exception, with the same message but for
/// the data in it, raised at the same place in the program.
#[Object]
impl ErrorGroup {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::ErrorGroup(self.row.account_id, self.row.id).into()
    }

    /// The exception's class, if it can be told.
    #[graphql(name = "type")]
    async fn exception_type(&self) -> Option<&str> {
        self.row.exception_type.as_deref()
    }

    /// The message; what differs from one error to the next is an ellipsis. Null, with an error, when the key it is
    /// encrypted with is lost.
    async fn title(&self) -> Alone<String> {
        Some(self.scope.store.error_group_title(&self.row).map_err(ApiError::from))
    }

    /// Whose failure it is.
    async fn origin(&self) -> ErrorOrigin {
        self.row.origin.into()
    }

    /// When the first of these errors happened, by the clock of its scheduler.
    async fn first_seen_at(&self) -> DateTime<Utc> {
        self.row.first_seen_at.0
    }

    /// When the last of these errors happened, by the clock of its scheduler.
    async fn last_seen_at(&self) -> DateTime<Utc> {
        self.row.last_seen_at.0
    }

    /// What is to be thought of it.
    async fn status(&self) -> ErrorGroupStatus {
        self.status_now().into()
    }

    /// When somebody last said what is to be thought of it, by the server's clock; null while nobody did.
    async fn status_changed_at(&self) -> Option<DateTime<Utc>> {
        self.row.status_changed_at.map(|at| at.0)
    }

    /// Who said it; null while nobody did, and when the user left the account.
    async fn status_changed_by(&self) -> Result<Option<User>, ApiError> {
        match self.row.status_changed_by {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// When the first of these errors happened after the group was resolved, by the clock of its scheduler; null unless
    /// the status is REGRESSED.
    async fn regressed_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        if self.status_now() != ErrorStatus::Regressed {
            return Ok(None);
        }
        let first = self.scope.loader.load_one(RegressionOf(self.row.id)).await?;
        // The errors themselves may be gone by their age.
        Ok(Some(first.unwrap_or(self.row.last_seen_at).0))
    }

    /// How many of these errors are stored.
    async fn occurrence_count(&self) -> Result<BigInt, ApiError> {
        Ok(BigInt(self.counts().await?.occurrences))
    }

    /// On how many clusters they happened.
    async fn cluster_count(&self) -> Result<BigInt, ApiError> {
        Ok(BigInt(self.counts().await?.clusters))
    }

    /// How many of these errors that are stored happened in each of some hours, days or weeks, the first of them first,
    /// also where there were none: whole ones, at most 1,000, by the clocks of the schedulers. Null, with an error, where it
    /// would be too much for one answer.
    async fn trend(
        &self,
        #[graphql(desc = "In which the first of them lies; 30 that end with the last one if not given.")]
        from: Option<DateTime<Utc>>,
        #[graphql(desc = "Until before when the last of them begins; until now if not given.")] to: Option<
            DateTime<Utc>,
        >,
        #[graphql(desc = "How long each is.", default_with = "TrendBucket::Day")] bucket: TrendBucket,
    ) -> Alone<Vec<TrendPoint>> {
        let trend = async {
            let milliseconds = |time: DateTime<Utc>| time.timestamp_millis();
            // What happens at this very moment belongs to it.
            let to = to.map_or(self.scope.now.timestamp_millis() + 1, milliseconds);
            let Ok(times) = Stretches::new(bucket.into(), from.map(milliseconds), to) else {
                let reason = format!("must not lie more than {MAX_STRETCHES} of them before the end");
                return Err(ApiError::InvalidArgument { argument: "from", reason });
            };
            if !self.scope.take_points(times.count()) {
                return Err(ApiError::TooMuch("the trends of the query are too much for one answer"));
            }
            let counts = self.scope.loader.load_one(TrendOf(self.row.id, times)).await?.unwrap_or_default();
            let point = |(number, start)| TrendPoint {
                start: DateTime::from_timestamp_millis(start).unwrap_or_default(),
                occurrences: BigInt(counts.get(&number).copied().unwrap_or(0)),
            };
            Ok(times.each().map(point).collect())
        };
        Some(trend.await)
    }

    /// These errors, the newest first.
    async fn occurrences(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ErrorOccurrence>, ApiError> {
        let page = PageArguments { first, after, last, before }.listed::<ErrorOccurrence>(context);
        let parent = ErrorParent::Group(self.row.id);
        connect(&self.scope, parent, ErrorSort::NewestOfAllFirst, page, ErrorOccurrence::new).await
    }
}

/// How long the times are in which something is counted. All begin with the clock, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Step")]
pub(super) enum TrendBucket {
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Seven days, from a Monday on.
    Week,
}

/// How many errors happened in an hour, a day or a week.
#[derive(SimpleObject)]
pub(super) struct TrendPoint {
    /// When it begins.
    start: DateTime<Utc>,
    /// How many errors happened in it.
    occurrences: BigInt,
}

/// The key of how many errors of a group happened when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TrendOf(ErrorGroupId, Stretches);

impl Loader<TrendOf> for Reader {
    type Value = BTreeMap<i64, i64>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[TrendOf]) -> Result<HashMap<TrendOf, Self::Value>, Self::Error> {
        let mut alike: HashMap<Stretches, Vec<ErrorGroupId>> = HashMap::new();
        for TrendOf(group, times) in keys {
            alike.entry(*times).or_default().push(*group);
        }
        let mut found = HashMap::new();
        for (times, groups) in alike {
            let trends = self.0.error_group_trends(&groups, times).await?;
            found.extend(trends.into_iter().map(|(group, trend)| (TrendOf(group, times), trend)));
        }
        Ok(found)
    }
}

/// Which groups of errors a list has.
pub(super) struct ErrorGroupArguments {
    pub(super) clusters: Option<ClusterFilter>,
    pub(super) origin: Option<ErrorOrigin>,
    pub(super) types: Option<Vec<String>>,
    pub(super) last_seen_in: Option<TimeRange>,
    pub(super) status: Option<Vec<ErrorGroupStatus>>,
}

/// A page of the account's groups of errors.
pub(super) async fn groups(
    scope: &AccountScope,
    arguments: ErrorGroupArguments,
    page: PageArguments,
) -> Result<Connection<ErrorGroup>, ApiError> {
    let sort = ErrorGroupSort::LastSeenFirst;
    let request = page.request(scope, sort)?;
    let ErrorGroupArguments { clusters, origin, types, last_seen_in, status } = arguments;
    texts("types", types.as_deref(), 100)?;
    let filter = ErrorGroupFilter {
        clusters: cluster_list::passing(scope, clusters).await?,
        origin: origin.map(Into::into),
        types,
        seen_in: last_seen_in.map_or((None, None), TimeRange::milliseconds),
        statuses: status.map(|statuses| statuses.into_iter().map(Into::into).collect()),
    };
    let page = scope.store.error_group_page(&filter, sort, &request).await?;
    let store = scope.store.clone();
    let total = counted(move || {
        let (store, filter) = (store.clone(), filter.clone());
        async move { store.error_group_count(&filter).await }
    });
    Ok(Connection::new(page, sort, |row| ErrorGroup::new(scope, row), total))
}

in_place! {
    ErrorGroup: id, exception_type as "type", title, origin, first_seen_at, last_seen_at, status, status_changed_at
}

/// Whose failure an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "error_group::Origin")]
pub(super) enum ErrorOrigin {
    /// The computation's own code raised it.
    User,
    /// Dask raised it: a worker was killed, a state was invalid.
    Dask,
}

names!(ErrorOrigin);
