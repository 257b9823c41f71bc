//! Facets of lists: the most frequent values of a property, with the number of items that have each.
//!
//! A facet of clusters counts all clusters that pass a filter. A facet of another list counts the newest
//! [`ROWS_PER_FACET`] rows of the requested time, because these lists have no bound.

use std::cmp::{Reverse, max};

use entity::{
    Timestamp,
    cluster::{self, Column},
    cluster_flag::{self, ClusterFlagKind, NOT_ENDED_KEY},
    cluster_tag, error_group, event, log_line, membership, user,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, FromQueryResult, IdenStatic, QueryFilter,
    QueryOrder, QueryResult, QuerySelect, QueryTrait, Select,
    sea_query::{Alias, Expr, ExprTrait, Func, Order, Query, SelectStatement, UnionType},
};

use super::{cluster_filter::ClusterFilter, cross_cluster::TimeRange, life_cycle::running_state_name};
use crate::{
    domain::{life_cycle::State, tag::Tag},
    store::{
        alerts::flag_mute,
        core::{
            error::StoreError,
            page::{End, PageRequest, RANK},
            read_rows::ReadSelect,
            scoped::AccountStore,
            search::numbered,
        },
        errors::error_group::ErrorGroupFilter,
        telemetry::{
            event::{AccountEvents, EventParent, EventSort, MAX_CLUSTERS},
            log_line::{AccountLogs, LogFilter, LogParent},
        },
    },
};

/// The number of rows that a facet of log lines, events or error groups counts, the newest first.
pub const ROWS_PER_FACET: u64 = 50_000;

/// The largest number of clusters whose package versions are counted. The versions are part of JSON texts.
const CLUSTERS_PER_VERSIONS: u64 = 10_000;

/// The number of different values, of all groups of a statement.
const VALUES: &str = "COUNT(*) OVER ()";

/// The columns of a facet's statement.
const VALUE: &str = "value";
const COUNT: &str = "count";
const TOTAL: &str = "total";

/// The most frequent values of a property, the most frequent first. Equally frequent values are in the
/// order of their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facet<T> {
    /// The values, each with the number of items that have it.
    pub values: Vec<(T, i64)>,
    /// The number of different values, including those that are left out.
    pub total: i64,
}

/// The rows that a facet of another list than that of clusters counts.
#[derive(Clone, Debug, PartialEq)]
pub enum FacetRows<OfCluster, OfAccount> {
    /// The rows of one cluster.
    OfCluster(OfCluster),
    /// The rows of all clusters.
    OfAccount(OfAccount),
}

impl<T> Facet<T> {
    fn read(
        rows: &[QueryResult],
        value: impl Fn(&QueryResult) -> Result<T, StoreError>,
    ) -> Result<Self, StoreError> {
        let total = rows.first().map(|row| row.try_get("", TOTAL)).transpose()?.unwrap_or(0);
        let values = rows.iter().map(|row| Ok((value(row)?, row.try_get("", COUNT)?)));
        Ok(Self { values: values.collect::<Result<_, StoreError>>()?, total })
    }
}

fn count_rows() -> Expr {
    Func::count(Expr::cust("*")).into()
}

impl AccountStore {
    /// Returns the number of clusters in each state, without states that no cluster has. The filter's
    /// states do not count.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.facet.states", skip_all)]
    pub async fn cluster_states(&self, filter: &ClusterFilter) -> Result<Vec<(State, i64)>, StoreError> {
        let count_in_states = |states: &[State]| {
            self.filtered_clusters(&ClusterFilter { states: Some(states.to_vec()), ..filter.clone() })
                .select_only()
        };
        let (running_states, ended_states): (Vec<State>, Vec<State>) =
            State::ALL.into_iter().partition(|state| state.status() == cluster::Status::Running);
        // An index has the status, so that ended clusters, the most, are counted without being read.
        let statement = count_in_states(&ended_states)
            .expr_as(Expr::col((cluster::Entity, Column::Status)), VALUE)
            .expr_as(count_rows(), COUNT)
            .group_by(Column::Status)
            .into_query()
            .union(
                UnionType::All,
                count_in_states(&running_states)
                    .expr_as(running_state_name(), VALUE)
                    .expr_as(count_rows(), COUNT)
                    // The position of the column: a repeated expression would bind its values a second time.
                    .group_by(Expr::cust("1"))
                    .into_query(),
            )
            .take();
        let mut states = Vec::new();
        for row in self.read_executor().query_all(&statement).await? {
            let name: String = row.try_get("", VALUE)?;
            let count: i64 = row.try_get("", COUNT)?;
            states.extend(
                State::ALL.into_iter().find(|state| state.name() == name).map(|state| (state, count)),
            );
        }
        states.sort_by_key(|(state, count)| (Reverse(*count), *state));
        Ok(states)
    }

    /// Returns the members with the most clusters. The filter's users do not count.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.facet.users", skip_all)]
    pub async fn cluster_users(
        &self,
        filter: &ClusterFilter,
        limit: u64,
    ) -> Result<Facet<user::Model>, StoreError> {
        let member = |column: membership::Column| Expr::col((membership::Entity, column));
        let clusters_by_user = self
            .filtered_clusters(&ClusterFilter { users: None, ..filter.clone() })
            .select_only()
            .column(Column::UserId)
            .expr_as(count_rows(), COUNT)
            .filter(Column::UserId.is_not_null())
            .group_by(Column::UserId)
            .into_query();
        let counted_user = || Expr::col(("counted", "user_id"));
        let statement = Query::select()
            .columns(
                [user::Column::Id, user::Column::Name, user::Column::CreatedAt].map(|c| (user::Entity, c)),
            )
            .column(("counted", COUNT))
            .expr_as(Expr::cust(VALUES), TOTAL)
            .from_subquery(clusters_by_user, "counted")
            .inner_join(
                membership::Entity,
                member(membership::Column::AccountId)
                    .eq(self.account_id().0)
                    .and(member(membership::Column::UserId).eq(counted_user())),
            )
            .inner_join(user::Entity, Expr::col((user::Entity, user::Column::Id)).eq(counted_user()))
            .order_by(("counted", COUNT), Order::Desc)
            .order_by_expr(self.by_bytes(r#""users"."name""#), Order::Asc)
            .limit(limit)
            .take();
        let rows = self.read_executor().query_all(&statement).await?;
        Facet::read(&rows, |row| Ok(user::Model::from_query_result(row, "")?))
    }

    /// Returns the most frequent tags of clusters. The filter's tags do not count.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.facet.tags", skip_all)]
    pub async fn tags_in_use(&self, filter: &ClusterFilter, limit: u64) -> Result<Facet<Tag>, StoreError> {
        use cluster_tag::{Column, Entity};
        let filter = ClusterFilter { tags: None, ..filter.clone() };
        let mut tags = self.select::<Entity>();
        if filter != ClusterFilter::default() {
            // Most clusters may have tags, so that the clusters are selected once.
            let clusters = self.filtered_clusters(&filter).select_only().column(cluster::Column::Id);
            tags = tags.filter(Column::ClusterId.in_subquery(clusters.into_query()));
        }
        let statement = tags
            .select_only()
            .columns([Column::Key, Column::Value])
            .expr_as(count_rows(), COUNT)
            .expr_as(Expr::cust(VALUES), TOTAL)
            .group_by(Column::Key)
            .group_by(Column::Value)
            .order_by_desc(Expr::col(Alias::new(COUNT)))
            .order_by_asc(self.by_bytes(r#""cluster_tags"."key""#))
            .order_by_asc(self.by_bytes(r#""cluster_tags"."value""#))
            .limit(limit)
            .into_query();
        let rows = self.read_executor().query_all(&statement).await?;
        Facet::read(&rows, |row| Ok(Tag::stored(row.try_get("", "key")?, row.try_get("", "value")?)))
    }

    /// Returns the number of clusters with an active flag of each kind that is not muted at `at`, without
    /// kinds that no cluster has. The filter's active flags do not count.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.facet.flags", skip_all)]
    pub async fn flags_in_use(
        &self,
        filter: &ClusterFilter,
        at: Timestamp,
    ) -> Result<Vec<(ClusterFlagKind, i64)>, StoreError> {
        use cluster_flag::{Column, Entity};
        let filter = ClusterFilter { flagged: None, ..filter.clone() };
        let mut kinds: Vec<(ClusterFlagKind, i64)> = self
            .select::<Entity>()
            .filter(Column::EndedKey.eq(NOT_ENDED_KEY))
            // Active flags are fewer than clusters, so that the cluster of each is looked up.
            .filter(Condition::all().add_option(self.cluster_condition(&filter, Column::ClusterId)))
            .filter(flag_mute::is_muted_condition(self.account_id(), at).not())
            .select_only()
            .column(Column::Kind)
            .expr_as(Expr::col((Entity, Column::ClusterId)).count_distinct(), COUNT)
            .group_by(Column::Kind)
            .read_tuples(&self.read_executor())
            .await?;
        kinds.sort_by_key(|(kind, count)| (Reverse(*count), *kind));
        Ok(kinds)
    }

    /// Returns the most frequent versions of a package on the schedulers of clusters; `python` is Python
    /// itself. The filter's package does not count.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, and [`StoreError::TooLarge`] if more than 10,000
    /// clusters pass.
    #[tracing::instrument(name = "store.facet.versions", skip_all)]
    pub async fn package_versions(
        &self,
        filter: &ClusterFilter,
        package: &str,
        limit: u64,
    ) -> Result<Facet<String>, StoreError> {
        let clusters = self.filtered_clusters(&ClusterFilter { package: None, ..filter.clone() });
        let ids = clusters.clone().select_only().column(Column::Id);
        if self.count_up_to(ids, CLUSTERS_PER_VERSIONS + 1).await? > CLUSTERS_PER_VERSIONS {
            return Err(StoreError::TooLarge(
                "more than 10000 clusters match: add a condition to the filter to count versions",
            ));
        }
        let (mut version, value) = self.package_version(package);
        let version = Expr::SubQuery(None, Box::new(version.expr(value).take().into()));
        let versions = clusters.select_only().expr_as(version, VALUE).into_query();
        let statement = self.frequent_values(
            Query::select().from_subquery(versions, "versions").take(),
            r#""versions"."value""#,
            limit,
        );
        let rows = self.read_executor().query_all(&statement).await?;
        Facet::read(&rows, |row| Ok(row.try_get("", VALUE)?))
    }

    /// Returns the most frequent exception types of error groups. The filter's types do not count.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.facet.error_types", skip_all)]
    pub async fn error_types(
        &self,
        filter: &ErrorGroupFilter,
        limit: u64,
    ) -> Result<Facet<String>, StoreError> {
        use error_group::{Column, Entity};
        if filter.is_of_no_cluster() {
            return Ok(Facet { values: Vec::new(), total: 0 });
        }
        let columns = [
            Column::Id,
            Column::Origin,
            Column::ExceptionType,
            Column::LastSeenAt,
            Column::Status,
            Column::ResolvedUntil,
        ];
        let newest =
            self.newest_rows::<Entity>(Column::LastSeenAt, filter.seen_in, Condition::all(), &columns);
        let condition = self.error_groups(&ErrorGroupFilter { types: None, ..filter.clone() });
        self.count_newest(newest, Entity, condition, Column::ExceptionType, limit).await
    }

    /// Returns true if [`Self::error_types`] counts all groups.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.facet.counts_all_error_groups", skip_all)]
    pub async fn counts_all_error_groups(&self, filter: &ErrorGroupFilter) -> Result<bool, StoreError> {
        use error_group::{Column, Entity};
        self.fits_facet(self.select_in_range::<Entity>(Column::LastSeenAt, filter.seen_in), Column::Id).await
    }

    /// Returns the most frequent levels of log lines. The filter's levels do not count.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.facet.log_levels", skip_all)]
    pub async fn log_levels(
        &self,
        rows: &FacetRows<LogParent, AccountLogs>,
        limit: u64,
    ) -> Result<Facet<String>, StoreError> {
        use log_line::{Column, Entity};
        let without_levels = |filter: &LogFilter| LogFilter { levels: None, ..filter.clone() };
        let (at, lines, condition) = match rows {
            FacetRows::OfCluster(rows) => {
                let lines = Condition::all().add(Column::ClusterId.eq(rows.cluster));
                (rows.at, lines, without_levels(&rows.filter).condition())
            }
            FacetRows::OfAccount(rows) => {
                let filter = without_levels(&rows.filter);
                (
                    rows.at,
                    Condition::all(),
                    self.account_log_condition(&AccountLogs { filter, ..rows.clone() }),
                )
            }
        };
        let columns = [Column::ClusterId, Column::Level, Column::Source, Column::WorkerId];
        let newest = self.newest_rows::<Entity>(Column::LoggedAt, at, lines, &columns);
        self.count_newest(newest, Entity, condition, Column::Level, limit).await
    }

    /// Returns true if [`Self::log_levels`] counts all lines.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.facet.counts_all_log_lines", skip_all)]
    pub async fn counts_all_log_lines(
        &self,
        rows: &FacetRows<LogParent, AccountLogs>,
    ) -> Result<bool, StoreError> {
        use log_line::{Column, Entity};
        let (at, cluster) = match rows {
            FacetRows::OfCluster(rows) => (rows.at, Some(rows.cluster)),
            FacetRows::OfAccount(rows) => (rows.at, None),
        };
        let lines = self.select_in_range::<Entity>(Column::LoggedAt, at);
        let is_of_cluster = cluster.map(|cluster| Column::ClusterId.eq(cluster));
        self.fits_facet(lines.filter(Condition::all().add_option(is_of_cluster)), Column::Id).await
    }

    /// Returns the most frequent topics of events. The filter's topics do not count. Of all clusters, an
    /// equal number of events of each is counted, because no index orders the events of all clusters.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, and [`StoreError::TooLarge`] if more than 500
    /// clusters pass.
    #[tracing::instrument(name = "store.facet.event_topics", skip_all)]
    pub async fn event_topics(
        &self,
        rows: &FacetRows<EventParent, AccountEvents>,
        limit: u64,
    ) -> Result<Facet<String>, StoreError> {
        use event::{Column, Entity};
        let newest = match rows {
            FacetRows::OfCluster(rows) => {
                let events = Condition::all().add(Column::ClusterId.eq(rows.cluster));
                self.newest_rows::<Entity>(Column::OccurredAt, rows.at, events, &[Column::Topic])
            }
            FacetRows::OfAccount(rows) => self.newest_events(rows, 0).await?.0,
        };
        self.count_newest(newest, Entity, Condition::all(), Column::Topic, limit).await
    }

    /// Returns true if [`Self::event_topics`] counts all events.
    ///
    /// # Errors
    /// Returns the same errors.
    #[tracing::instrument(name = "store.facet.counts_all_events", skip_all)]
    pub async fn counts_all_events(
        &self,
        rows: &FacetRows<EventParent, AccountEvents>,
    ) -> Result<bool, StoreError> {
        use event::{Column, Entity};
        match rows {
            FacetRows::OfCluster(rows) => {
                let events = self.select_in_range::<Entity>(Column::OccurredAt, rows.at);
                self.fits_facet(events.filter(Column::ClusterId.eq(rows.cluster)), Column::Id).await
            }
            FacetRows::OfAccount(rows) => {
                let (newest, max_per_cluster) = self.newest_events(rows, 1).await?;
                let statement = Query::select()
                    .expr_as(Expr::col(Alias::new(RANK)).max(), VALUE)
                    .from_subquery(newest, Entity)
                    .take();
                let row = self.read_executor().query_one(&statement).await?;
                let highest_rank: Option<i64> = row.map(|row| row.try_get("", VALUE)).transpose()?.flatten();
                Ok(highest_rank.is_none_or(|highest_rank| {
                    u64::try_from(highest_rank).is_ok_and(|highest_rank| highest_rank < max_per_cluster)
                }))
            }
        }
    }

    /// Returns the newest events of each cluster that passes a filter: as many as a facet counts, and
    /// `additional` ones. The second value is the largest number of events of one cluster.
    async fn newest_events(
        &self,
        filter: &AccountEvents,
        additional: u64,
    ) -> Result<(SelectStatement, u64), StoreError> {
        let (clusters, count) = self.select_event_clusters(filter).await?;
        let max_per_cluster = ROWS_PER_FACET / max(count, 1) + additional;
        let sort = EventSort::OldestOfAllFirst;
        let request = PageRequest::from(End::Last, max_per_cluster);
        let events = self.select_in_range::<event::Entity>(event::Column::OccurredAt, filter.at);
        let is_of_cluster = Expr::col((event::Entity, event::Column::ClusterId))
            .eq(Expr::col((crate::store::telemetry::event::LISTED_CLUSTERS, Column::Id)));
        let list = numbered(events.filter(is_of_cluster), sort, max_per_cluster, &request);
        let clusters = clusters.limit(MAX_CLUSTERS).into_query();
        Ok((self.select_for_each_cluster(clusters, list, sort, &request), max_per_cluster))
    }

    /// Selects the newest rows in a range of time, in a subquery that keeps the name of the table.
    fn newest_rows<E: entity::AccountOwned>(
        &self,
        time: E::Column,
        range: TimeRange,
        condition: Condition,
        columns: &[E::Column],
    ) -> SelectStatement {
        self.select_in_range::<E>(time, range)
            .filter(condition)
            .select_only()
            .columns(columns.iter().copied())
            .order_by_desc(time)
            .limit(ROWS_PER_FACET)
            .into_query()
    }

    async fn count_newest<E: EntityTrait>(
        &self,
        newest: SelectStatement,
        table: E,
        condition: Condition,
        value: E::Column,
        limit: u64,
    ) -> Result<Facet<String>, StoreError> {
        let mut rows = Query::select();
        // The subquery has the name of the table, so that the columns of the condition refer to it.
        rows.from_subquery(newest, Alias::new(table.table_name())).cond_where(condition);
        let value = format!(r#""{}"."{}""#, table.table_name(), value.as_str());
        let statement = self.frequent_values(rows, &value, limit);
        let rows = self.read_executor().query_all(&statement).await?;
        Facet::read(&rows, |row| Ok(row.try_get("", VALUE)?))
    }

    /// Completes a statement that selects rows to one for the most frequent values of a text column.
    fn frequent_values(&self, mut rows: SelectStatement, column: &str, limit: u64) -> SelectStatement {
        let value = || Expr::cust(column.to_owned());
        rows.expr_as(value(), VALUE)
            .expr_as(count_rows(), COUNT)
            .expr_as(Expr::cust(VALUES), TOTAL)
            .and_where(value().is_not_null())
            .add_group_by([value()])
            .order_by(Alias::new(COUNT), Order::Desc)
            .order_by_expr(self.by_bytes(column), Order::Asc)
            .limit(limit);
        rows
    }

    /// Returns true if a facet counts all rows of a statement.
    async fn fits_facet<E: EntityTrait>(&self, rows: Select<E>, id: E::Column) -> Result<bool, StoreError> {
        let rows = rows.select_only().column(id);
        Ok(self.count_up_to(rows, ROWS_PER_FACET + 1).await? <= ROWS_PER_FACET)
    }

    /// Returns a text column for an order by its bytes. PostgreSQL would follow the language of the
    /// database.
    pub(crate) fn by_bytes(&self, column: &str) -> Expr {
        let collation = if self.is_postgres() { r#" COLLATE "C""# } else { "" };
        Expr::cust(format!("{column}{collation}"))
    }
}
