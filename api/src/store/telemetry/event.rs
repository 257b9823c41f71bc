//! Events, listed by cluster or over all clusters.

use std::{
    cmp::max,
    collections::{BTreeMap, HashMap},
};

use entity::{
    cluster,
    event::{Column, Entity, Model},
    ids::{ClusterId, EventId, KeyTime},
};
use sea_orm::{
    ColumnTrait, Condition, PaginatorTrait, QueryFilter, QuerySelect, QueryTrait, Select,
    sea_query::{Alias, Asterisk, Expr, ExprTrait, Func, JoinType, OverStatement, Query, SelectStatement},
};

use crate::{
    domain::report::EventReport,
    store::{
        clusters::{
            cluster_filter::ClusterFilter,
            cross_cluster::{TimeRange, remaining_range},
        },
        core::{
            change_feed::PendingChanges,
            composite_in::IsOneOf,
            error::StoreError,
            multi_list,
            page::{self, Key, Page, PageRequest, RANK, Slice, Sort},
            read_rows::ReadSelect,
            scoped::AccountStore,
            search::{BoundedScan, ROWS_PER_SEARCH, numbered, page_order},
            upsert::keep_existing_row,
        },
    },
};

/// The orders events can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventSort {
    /// The oldest event comes first, within one cluster.
    OldestFirst,
    /// The oldest event comes first, over all clusters.
    OldestOfAllFirst,
    /// Events in the order of their arrival.
    AsArrived,
}

impl Sort for EventSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        match self {
            Self::OldestFirst => "occurred_at:asc",
            Self::OldestOfAllFirst => "occurred_at,cluster_id:asc",
            Self::AsArrived => "arrived_at:asc",
        }
    }

    fn columns(self) -> Vec<Column> {
        match self {
            Self::OldestFirst => vec![Column::OccurredAt, Column::Id],
            Self::OldestOfAllFirst => vec![Column::OccurredAt, Column::ClusterId, Column::Id],
            Self::AsArrived => vec![Column::ArrivedAt, Column::ClusterId, Column::OccurredAt, Column::Id],
        }
    }

    fn descending(self) -> bool {
        false
    }

    fn accepts(self, key: &Key) -> bool {
        match self {
            Self::OldestFirst => key.is_time_in_cluster(),
            Self::OldestOfAllFirst => key.is_time_in_account(),
            // Streams have cursors of their own.
            Self::AsArrived => false,
        }
    }

    fn key(self, row: &Model) -> Key {
        match self {
            Self::OldestFirst => Key::time_in_cluster(row.occurred_at, row.id),
            Self::OldestOfAllFirst => Key::time_in_account(row.occurred_at, row.cluster_id, row.id),
            Self::AsArrived => Key::arrival(row.arrived_at, row.cluster_id, row.occurred_at, row.id),
        }
    }
}

/// A cluster and a filter of its events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventParent {
    /// The cluster.
    pub cluster: ClusterId,
    /// The range of the events' times.
    pub at: TimeRange,
    /// Only events of one of these topics. `None` for any topic.
    pub topics: Option<Vec<String>>,
}

impl EventParent {
    fn condition(&self) -> Condition {
        topic_condition(self.topics.as_deref()).add(Column::ClusterId.eq(self.cluster))
    }
}

impl AccountEvents {
    fn condition(&self) -> Condition {
        topic_condition(self.topics.as_deref())
    }
}

fn topic_condition(topics: Option<&[String]>) -> Condition {
    let has_topic = |topics: &[String]| Column::Topic.is_one_of(topics.iter().map(String::as_str));
    Condition::all().add_option(topics.map(has_topic))
}

/// A filter of the events of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountEvents {
    /// Only events on clusters that pass this filter.
    pub clusters: ClusterFilter,
    /// The range of the events' times. Clusters that did not exist in the range are not read.
    pub at: TimeRange,
    /// Only events of one of these topics. `None` for any topic.
    pub topics: Option<Vec<String>>,
}

/// The largest number of clusters whose events are merged.
pub(crate) const MAX_CLUSTERS: u64 = 500;

/// The alias of these clusters in a statement.
pub(crate) const LISTED_CLUSTERS: &str = "there";

impl AccountStore {
    /// Returns a page of the events of all clusters that pass a filter and existed in the time range. It
    /// merges a page of each cluster, because no index orders the events of all clusters. It looks at no
    /// more than [`ROWS_PER_SEARCH`] events, or at one more per cluster than the page has.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, and [`StoreError::TooLarge`] if more than 500
    /// clusters pass.
    #[tracing::instrument(name = "store.event.page", skip_all)]
    pub async fn account_event_page(
        &self,
        filter: &AccountEvents,
        sort: EventSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let (clusters, count) = self.select_event_clusters(filter).await?;
        let scan_limit = max(ROWS_PER_SEARCH / max(count, 1), request.limit + 1);
        let events = self.select_in_range::<Entity>(
            Column::OccurredAt,
            remaining_range(filter.at, sort.descending(), request),
        );
        let is_of_cluster =
            Expr::col((Entity, Column::ClusterId)).eq(Expr::col((LISTED_CLUSTERS, cluster::Column::Id)));
        let list = numbered(events.filter(is_of_cluster), sort, scan_limit, request);
        let rows =
            self.select_for_each_cluster(clusters.limit(MAX_CLUSTERS).into_query(), list, sort, request);
        BoundedScan { rows, scan_limit, sort }.page(&self.read_executor(), filter.condition(), request).await
    }

    /// Returns the clusters that pass a filter and existed in the time range, and their number.
    pub(crate) async fn select_event_clusters(
        &self,
        filter: &AccountEvents,
    ) -> Result<(Select<cluster::Entity>, u64), StoreError> {
        let clusters = self
            .select_clusters_in_range(&filter.clusters, filter.at)
            .select_only()
            .column(cluster::Column::Id);
        let count = self.count_up_to(clusters.clone(), MAX_CLUSTERS + 1).await?;
        if count > MAX_CLUSTERS {
            return Err(StoreError::TooLarge(
                "more than 500 clusters match: shorten the period 'at', or narrow 'clusters'",
            ));
        }
        Ok((clusters, count))
    }

    /// Selects the rows of a list for each of some clusters. `list` refers to the cluster.
    pub(crate) fn select_for_each_cluster(
        &self,
        clusters: SelectStatement,
        list: SelectStatement,
        sort: EventSort,
        request: &PageRequest,
    ) -> SelectStatement {
        let mut rows = Query::select();
        rows.column((Entity, Asterisk)).from_subquery(clusters, LISTED_CLUSTERS);
        if self.is_postgres() {
            rows.join_lateral(JoinType::InnerJoin, list, Entity, Condition::all().add(Expr::cust("TRUE")));
            return rows;
        }
        // SQLite has no lateral joins, so the list selects row identifiers in a correlated subquery.
        let row_id = || Expr::col((Entity, Alias::new("rowid")));
        let mut list = list;
        list.clear_selects().expr(row_id());
        let mut ranking = page_order(sort, request);
        ranking.partition_by((Entity, Column::ClusterId));
        rows.join(JoinType::InnerJoin, Entity, row_id().in_subquery(list)).expr_window_as(
            Func::cust("ROW_NUMBER"),
            ranking,
            Alias::new(RANK),
        );
        rows
    }

    /// Counts the events of all clusters that pass a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.event.count", skip_all)]
    pub async fn account_event_count(&self, filter: &AccountEvents) -> Result<u64, StoreError> {
        let clusters = self
            .select_clusters_in_range(&filter.clusters, filter.at)
            .select_only()
            .column(cluster::Column::Id)
            .into_query();
        let events = self.select_in_range::<Entity>(Column::OccurredAt, filter.at).filter(filter.condition());
        Ok(events.filter(Column::ClusterId.in_subquery(clusters)).count(&self.read_executor()).await?)
    }

    /// Returns the same page of the events of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.event.pages", skip_all)]
    pub async fn event_pages(
        &self,
        parents: &[EventParent],
        sort: EventSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let select_events = |parent: &EventParent| {
            let select = self
                .select_in_range(Column::OccurredAt, remaining_range(parent.at, sort.descending(), request));
            select.filter(parent.condition())
        };
        multi_list::fetch_pages(
            &self.read_executor(),
            parents.iter().map(select_events).collect(),
            sort,
            request,
        )
        .await
    }

    /// Returns a slice of the events of a cluster, the oldest first.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.event.slice", skip_all)]
    pub async fn event_slice(&self, cluster: ClusterId, slice: Slice) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        page::fetch_slice(&self.read_executor(), select, EventSort::OldestFirst, slice).await
    }

    /// Returns an event of a cluster, by its whole key.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.event.get", skip_all)]
    pub async fn event(
        &self,
        cluster: ClusterId,
        occurred_at: KeyTime,
        id: EventId,
    ) -> Result<Option<Model>, StoreError> {
        Ok(self
            .select::<Entity>()
            .filter(Column::ClusterId.eq(cluster))
            .filter(Column::OccurredAt.eq(occurred_at))
            .filter(Column::Id.eq(id))
            .one(&self.read_executor())
            .await?)
    }

    /// Counts the events of each parent. Parents without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.event.counts", skip_all)]
    pub async fn event_counts(
        &self,
        parents: &[EventParent],
    ) -> Result<HashMap<EventParent, i64>, StoreError> {
        // One statement for all clusters with the same filter.
        let mut parents_by_filter: HashMap<_, Vec<&EventParent>> = HashMap::new();
        for parent in parents {
            parents_by_filter.entry((parent.at, &parent.topics)).or_default().push(parent);
        }
        let mut counts = HashMap::new();
        for ((at, topics), parents) in parents_by_filter {
            let rows: Vec<(ClusterId, i64)> = self
                .select_in_range::<Entity>(Column::OccurredAt, at)
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_one_of(parents.iter().map(|parent| parent.cluster)))
                .filter(topic_condition(topics.as_deref()))
                .group_by(Column::ClusterId)
                .read_tuples(&self.read_executor())
                .await?;
            let parent = |cluster| EventParent { cluster, at, topics: topics.clone() };
            counts.extend(rows.into_iter().map(|(cluster, count)| (parent(cluster), count)));
        }
        Ok(counts)
    }

    /// Returns events in the order of their arrival.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.event.arrived", skip_all)]
    pub async fn arrived_events(
        &self,
        filter: &AccountEvents,
        arrivals: &[PendingChanges],
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let columns = (Column::ArrivedAt, Column::ClusterId, Column::OccurredAt, Column::Id);
        let cluster_condition = self.cluster_condition(&filter.clusters, Column::ClusterId);
        let condition = filter.condition().add_option(cluster_condition);
        self.fetch_in_arrival_order(arrivals, columns, condition, EventSort::AsArrived, limit).await
    }

    /// Writes the events of a report.
    pub(crate) async fn record_events(
        &self,
        cluster: ClusterId,
        arrival: i64,
        reports: &[EventReport],
    ) -> Result<(), StoreError> {
        // Sorted by key, because locks must be taken in one order.
        let rows = reports.iter().map(|report| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            occurred_at: report.at.timestamp().into(),
            id: report.id,
            topic: report.topic.as_str().to_owned(),
            worker_id: report.worker_id,
            data: report.data.as_str().to_owned(),
            arrived_at: arrival,
        });
        let rows: BTreeMap<_, _> = rows.map(|row| ((row.occurred_at, row.id), row)).collect();
        self.insert::<Entity>(rows.into_values().collect(), &keep_existing_row::<Entity>()).await?;
        Ok(())
    }
}
