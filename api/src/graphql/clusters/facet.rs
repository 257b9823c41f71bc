//! Facets of lists: the values by which a list can be filtered further, with the number of items of each.

use async_graphql::{Object, SimpleObject};
use entity::user;

use super::{cluster_list::check_search_text, cluster_state::ClusterState, cluster_tag::Tag};
use crate::{
    graphql::{
        access::user::User,
        alerts::flag::FlagKind,
        engine::{
            error::{ApiError, NullOnError},
            scalar::BigInt,
            scope::{AccountScope, QuotaKind},
        },
    },
    store::{
        self, AccountEvents, AccountLogs, ErrorGroupFilter, EventParent, FacetRows, LogParent,
        ROWS_PER_FACET, ROWS_PER_SEARCH,
    },
};

/// The maximum number of values of a facet.
const MAX_VALUES: u64 = 100;

/// The number of searches that a facet of the newest rows counts as.
const SEARCHES_PER_FACET: usize = (ROWS_PER_FACET / ROWS_PER_SEARCH) as usize;

/// The values by which a list of clusters can be filtered further. Names, notes and other encrypted or
/// unbounded properties have no facet.
pub(crate) struct ClusterFacets {
    pub(crate) scope: AccountScope,
    pub(crate) filter: store::ClusterFilter,
}

/// The values by which a list of clusters can be filtered further. Each facet ignores the filter's condition
/// on its own property: its counts are the lengths that the list would have if this condition selected only
/// the counted value. Computed only if selected.
#[Object]
impl ClusterFacets {
    /// The states of clusters, without regard to `states` of the filter, the most frequent first.
    async fn states(&self) -> Result<Vec<ClusterStateCount>, ApiError> {
        let states = self.scope.store.cluster_states(&self.filter).await?;
        let count = |(state, count): (crate::domain::life_cycle::State, i64)| ClusterStateCount {
            state: state.into(),
            count: BigInt(count),
        };
        Ok(states.into_iter().map(count).collect())
    }

    /// The owners of the clusters, without regard to `users` of the filter. Clusters of users who left the
    /// account are not counted.
    async fn users(
        &self,
        #[graphql(desc = "The number of users, 1 to 100.", default = 20)] first: i32,
    ) -> Result<UserFacet, ApiError> {
        let facet = self.scope.store.cluster_users(&self.filter, parse_limit(first)?).await?;
        let count = |(user, count): (user::Model, i64)| UserCount {
            user: User::new(&self.scope, user),
            count: BigInt(count),
        };
        Ok(UserFacet {
            values: facet.values.into_iter().map(count).collect(),
            value_count: BigInt(facet.total),
        })
    }

    /// The tags of clusters, without regard to `tags` of the filter.
    async fn tags(
        &self,
        #[graphql(desc = "The number of tags, 1 to 100.", default = 20)] first: i32,
    ) -> Result<TagFacet, ApiError> {
        let facet = self.scope.store.tags_in_use(&self.filter, parse_limit(first)?).await?;
        let values = facet.values.iter();
        Ok(TagFacet {
            values: values.map(|(tag, count)| TagCount { tag: tag.into(), count: BigInt(*count) }).collect(),
            value_count: BigInt(facet.total),
        })
    }

    /// The kinds of active flags that are not muted, without regard to `flags` of the filter, the most
    /// frequent first.
    async fn flags(&self) -> Result<Vec<FlagCount>, ApiError> {
        let flags = self.scope.store.flags_in_use(&self.filter, self.scope.now.into()).await?;
        let flags = flags.into_iter();
        Ok(flags.map(|(kind, count)| FlagCount { kind: kind.into(), count: BigInt(count) }).collect())
    }

    /// The versions of a package on the schedulers, without regard to `package` of the filter. Clusters
    /// whose scheduler does not have the package are not counted. One query may request it ten times.
    /// Null, with the error code `BAD_USER_INPUT`, if more than 10,000 clusters pass.
    async fn package_versions(
        &self,
        #[graphql(desc = "The package; `python` for Python itself.", default = "dask")] package: String,
        #[graphql(desc = "The number of versions, 1 to 100.", default = 20)] first: i32,
    ) -> NullOnError<TextFacet> {
        let versions = async {
            check_search_text("package", &package)?;
            let limit = parse_limit(first)?;
            self.scope.charge(QuotaKind::Searches, SEARCHES_PER_FACET)?;
            Ok(self.scope.store.package_versions(&self.filter, &package, limit).await?.into())
        };
        Some(versions.await)
    }
}

/// The values by which a list of error groups can be filtered further.
pub(crate) struct ErrorGroupFacets {
    pub(crate) scope: AccountScope,
    pub(crate) filter: ErrorGroupFilter,
}

/// The values by which a list of error groups can be filtered further. Covers the 50,000 groups with the
/// newest errors in the period `lastSeenIn`. Titles are encrypted and have no facet. One query may
/// request ten facets.
#[Object]
impl ErrorGroupFacets {
    /// True if the facets count all groups of the list. False if there are more than 50,000 groups in the
    /// period.
    async fn is_complete(&self) -> Result<bool, ApiError> {
        // Rows are counted by an index and not read.
        self.scope.charge(QuotaKind::Searches, 1)?;
        Ok(self.scope.store.counts_all_error_groups(&self.filter).await?)
    }

    /// The classes of exceptions, without regard to `types`, with the number of groups. Groups whose
    /// class is unknown are not counted.
    async fn types(
        &self,
        #[graphql(desc = "The number of classes, 1 to 100.", default = 20)] first: i32,
    ) -> Result<TextFacet, ApiError> {
        let limit = parse_limit(first)?;
        self.scope.charge(QuotaKind::Searches, SEARCHES_PER_FACET)?;
        Ok(self.scope.store.error_types(&self.filter, limit).await?.into())
    }
}

/// The values by which a list of events can be filtered further.
pub(crate) struct EventFacets {
    pub(crate) scope: AccountScope,
    pub(crate) events: FacetRows<EventParent, AccountEvents>,
}

/// The values by which a list of events can be filtered further. Covers the newest 50,000 events in the
/// period `at`, in equal numbers of each cluster. One query may request ten facets.
#[Object]
impl EventFacets {
    /// True if the facets count all events of the list. False if there are more.
    async fn is_complete(&self) -> Result<bool, ApiError> {
        // Rows are counted by an index and not read.
        self.scope.charge(QuotaKind::Searches, 1)?;
        Ok(self.scope.store.counts_all_events(&self.events).await?)
    }

    /// The topics, without regard to `topics`, with the number of events.
    async fn topics(
        &self,
        #[graphql(desc = "The number of topics, 1 to 100.", default = 20)] first: i32,
    ) -> Result<TextFacet, ApiError> {
        let limit = parse_limit(first)?;
        self.scope.charge(QuotaKind::Searches, SEARCHES_PER_FACET)?;
        Ok(self.scope.store.event_topics(&self.events, limit).await?.into())
    }
}

/// The values by which a list of log lines can be filtered further.
pub(crate) struct LogFacets {
    pub(crate) scope: AccountScope,
    pub(crate) lines: FacetRows<LogParent, AccountLogs>,
}

/// The values by which a list of log lines can be filtered further. Covers the newest 50,000 lines in the
/// period `at`, without regard to `match`: the text of lines is encrypted. One query may request ten
/// facets.
#[Object]
impl LogFacets {
    /// True if the facets count all lines of the list. False if there are more than 50,000 lines in the
    /// period.
    async fn is_complete(&self) -> Result<bool, ApiError> {
        // Rows are counted by an index and not read.
        self.scope.charge(QuotaKind::Searches, 1)?;
        Ok(self.scope.store.counts_all_log_lines(&self.lines).await?)
    }

    /// The levels, without regard to `levels`, with the number of lines. Consecutive repetitions of a line
    /// count as one.
    async fn levels(
        &self,
        #[graphql(desc = "The number of levels, 1 to 100.", default = 20)] first: i32,
    ) -> Result<TextFacet, ApiError> {
        let limit = parse_limit(first)?;
        self.scope.charge(QuotaKind::Searches, SEARCHES_PER_FACET)?;
        Ok(self.scope.store.log_levels(&self.lines, limit).await?.into())
    }
}

/// Declares the fields that only the lists of a noun have.
macro_rules! list_fields {
    ($fields:ident, $facets:ident { $name:ident: $filter_type:ty }) => {
        #[derive(Clone)]
        pub(crate) struct $fields {
            pub(crate) scope: AccountScope,
            pub(crate) $name: $filter_type,
        }

        #[Object]
        impl $fields {
            /// The values by which the list can be filtered further, with the number of items of each.
            async fn facets(&self) -> $facets {
                $facets { scope: self.scope.clone(), $name: self.$name.clone() }
            }
        }
    };
}
list_fields! { ErrorGroupListFields, ErrorGroupFacets { filter: ErrorGroupFilter } }
list_fields! { EventListFields, EventFacets { events: FacetRows<EventParent, AccountEvents> } }
list_fields! { LogListFields, LogFacets { lines: FacetRows<LogParent, AccountLogs> } }

/// The most frequent values of a text, the most frequent first. Equally frequent values are in the order of
/// their bytes.
#[derive(SimpleObject)]
pub(crate) struct TextFacet {
    /// The most frequent values, as many as `first`.
    values: Vec<TextCount>,
    /// The number of different values, including those that are left out.
    value_count: BigInt,
}

/// The number of items with a value.
#[derive(SimpleObject)]
pub(crate) struct TextCount {
    /// The value.
    value: String,
    /// The number of items.
    count: BigInt,
}

/// The users with the most clusters, the most clusters first. Users with equally many are in the order of
/// their names.
#[derive(SimpleObject)]
pub(crate) struct UserFacet {
    /// The users with the most clusters, as many as `first`.
    values: Vec<UserCount>,
    /// The number of users, including those that are left out.
    value_count: BigInt,
}

/// The number of clusters of a user.
#[derive(SimpleObject)]
pub(crate) struct UserCount {
    /// The user.
    user: User,
    /// The number of clusters.
    count: BigInt,
}

/// The most frequent tags, the most frequent first. Equally frequent tags are in the order of keys and
/// values.
#[derive(SimpleObject)]
pub(crate) struct TagFacet {
    /// The most frequent tags, as many as `first`.
    values: Vec<TagCount>,
    /// The number of different tags, including those that are left out.
    value_count: BigInt,
}

/// The number of clusters with a tag.
#[derive(SimpleObject)]
pub(crate) struct TagCount {
    /// The tag.
    tag: Tag,
    /// The number of clusters.
    count: BigInt,
}

/// The number of clusters in a state.
#[derive(SimpleObject)]
pub(crate) struct ClusterStateCount {
    /// The state.
    state: ClusterState,
    /// The number of clusters.
    count: BigInt,
}

/// The number of clusters with a flag.
#[derive(SimpleObject)]
pub(crate) struct FlagCount {
    /// The kind of the flag.
    kind: FlagKind,
    /// The number of clusters.
    count: BigInt,
}

impl From<store::Facet<String>> for TextFacet {
    fn from(facet: store::Facet<String>) -> Self {
        let values = facet.values.into_iter();
        Self {
            values: values.map(|(value, count)| TextCount { value, count: BigInt(count) }).collect(),
            value_count: BigInt(facet.total),
        }
    }
}

fn parse_limit(first: i32) -> Result<u64, ApiError> {
    match u64::try_from(first) {
        Ok(limit @ 1..=MAX_VALUES) => Ok(limit),
        _ => Err(ApiError::invalid("first", format!("must be from 1 to {MAX_VALUES}"))),
    }
}
