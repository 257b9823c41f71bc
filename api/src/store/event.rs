//! Events, listed by cluster or over all clusters.

use std::{
    cmp::max,
    collections::{BTreeMap, HashMap},
};

use entity::{
    cluster,
    event::{Column, Entity, Model},
    ids::ClusterId,
};
use sea_orm::{
    ColumnTrait, Condition, PaginatorTrait, QueryFilter, QuerySelect, QueryTrait,
    sea_query::{Alias, Asterisk, Expr, ExprTrait, Func, JoinType, OverStatement, Query, SelectStatement},
};

use super::{
    account_list::{TimeRange, unsaid},
    arrival::Arrivals,
    cluster_filter::ClusterFilter,
    error::StoreError,
    lists,
    page::{self, Key, PLACE, Page, PageRequest, Slice, Sort},
    scoped::AccountStore,
    search::{ROWS_PER_SEARCH, Walk, in_order, numbered},
    upsert::first_wins,
};
use crate::domain::report::EventReport;

/// The orders events can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventSort {
    /// The event that happened first comes first.
    OldestFirst,
    /// The same over all clusters.
    OldestOfAllFirst,
    /// In the order in which they arrived.
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

/// Which events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventParent {
    /// Of which cluster.
    pub cluster: ClusterId,
    /// Published when.
    pub at: TimeRange,
    /// Published under one of these; none means under any.
    pub topics: Option<Vec<String>>,
}

impl EventParent {
    fn condition(&self) -> Condition {
        published_under(self.topics.as_deref()).add(Column::ClusterId.eq(self.cluster))
    }
}

impl AccountEvents {
    fn condition(&self) -> Condition {
        published_under(self.topics.as_deref())
    }
}

fn published_under(topics: Option<&[String]>) -> Condition {
    let is_one = |topics: &[String]| Column::Topic.is_in(topics.iter().map(String::as_str));
    Condition::all().add_option(topics.map(is_one))
}

/// Which events of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountEvents {
    /// Of which clusters.
    pub clusters: ClusterFilter,
    /// Published when, on clusters that were there then.
    pub at: TimeRange,
    /// Published under one of these; none means under any.
    pub topics: Option<Vec<String>>,
}

/// Clusters whose events are merged at the most.
const MAX_CLUSTERS: u64 = 500;

/// What these clusters are called in a statement.
const THERE: &str = "there";

impl AccountStore {
    /// A page of the events of all clusters that a filter passes and that were there at the time: a merge of pages of each,
    /// since there is no order of all events. Looks at no more than [`ROWS_PER_SEARCH`] events, or one more of each cluster
    /// than the page has.
    ///
    /// # Errors
    /// When the database does not answer, or [`StoreError::TooMuch`].
    #[tracing::instrument(name = "store.event.page", skip_all)]
    pub async fn account_event_page(
        &self,
        of: &AccountEvents,
        sort: EventSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let clusters = self.clusters_during(&of.clusters, of.at).select_only().column(cluster::Column::Id);
        let count = self.count_to(clusters.clone(), MAX_CLUSTERS + 1).await?;
        if count > MAX_CLUSTERS {
            return Err(StoreError::TooMuch(
                "the events of more than 500 clusters are asked for: give a shorter 'at', or 'clusters' of which fewer \
                 were there then",
            ));
        }
        let most = max(ROWS_PER_SEARCH / max(count, 1), request.limit + 1);
        let events = self.during::<Entity>(Column::OccurredAt, unsaid(of.at, sort.descending(), request));
        let of_cluster = Expr::col((Entity, Column::ClusterId)).eq(Expr::col((THERE, cluster::Column::Id)));
        let list = numbered(events.filter(of_cluster), sort, most, request);
        let rows = self.of_each(clusters.limit(MAX_CLUSTERS).into_query(), list, sort, request);
        Walk { rows, most, sort }.page(&self.reads(), of.condition(), request).await
    }

    /// The rows of a list for each of some clusters, by which it is filtered.
    fn of_each(
        &self,
        clusters: SelectStatement,
        list: SelectStatement,
        sort: EventSort,
        request: &PageRequest,
    ) -> SelectStatement {
        let mut rows = Query::select();
        rows.column((Entity, Asterisk)).from_subquery(clusters, THERE);
        if self.is_postgres() {
            rows.join_lateral(JoinType::InnerJoin, list, Entity, Condition::all().add(Expr::cust("TRUE")));
            return rows;
        }
        // The same for a database that knows no lateral joins.
        let row_id = || Expr::col((Entity, Alias::new("rowid")));
        let mut list = list;
        list.clear_selects().expr(row_id());
        let mut places = in_order(sort, request);
        places.partition_by((Entity, Column::ClusterId));
        rows.join(JoinType::InnerJoin, Entity, row_id().in_subquery(list)).expr_window_as(
            Func::cust("ROW_NUMBER"),
            places,
            Alias::new(PLACE),
        );
        rows
    }

    /// How many events of all clusters a filter passes.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.event.count", skip_all)]
    pub async fn account_event_count(&self, of: &AccountEvents) -> Result<u64, StoreError> {
        let clusters =
            self.clusters_during(&of.clusters, of.at).select_only().column(cluster::Column::Id).into_query();
        let events = self.during::<Entity>(Column::OccurredAt, of.at).filter(of.condition());
        Ok(events.filter(Column::ClusterId.in_subquery(clusters)).count(&self.reads()).await?)
    }

    /// The same page of the events of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.event.pages", skip_all)]
    pub async fn event_pages(
        &self,
        parents: &[EventParent],
        sort: EventSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let of = |parent: &EventParent| {
            let select = self.during(Column::OccurredAt, unsaid(parent.at, sort.descending(), request));
            select.filter(parent.condition())
        };
        lists::fetch_each(&self.reads(), parents.iter().map(of).collect(), sort, request).await
    }

    /// A slice of the events of a cluster, in the order in which they happened.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.event.slice", skip_all)]
    pub async fn event_slice(&self, cluster: ClusterId, slice: Slice) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        page::fetch_slice(&self.reads(), select, EventSort::OldestFirst, slice).await
    }

    /// How many events each parent has; parents without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.event.counts", skip_all)]
    pub async fn event_counts(
        &self,
        parents: &[EventParent],
    ) -> Result<HashMap<EventParent, i64>, StoreError> {
        // One statement for all clusters whose events are asked for in the same way.
        let mut alike: HashMap<_, Vec<&EventParent>> = HashMap::new();
        for parent in parents {
            alike.entry((parent.at, &parent.topics)).or_default().push(parent);
        }
        let mut counts = HashMap::new();
        for ((at, topics), parents) in alike {
            let rows: Vec<(ClusterId, i64)> = self
                .during::<Entity>(Column::OccurredAt, at)
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_in(parents.iter().map(|parent| parent.cluster)))
                .filter(published_under(topics.as_deref()))
                .group_by(Column::ClusterId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            let parent = |cluster| EventParent { cluster, at, topics: topics.clone() };
            counts.extend(rows.into_iter().map(|(cluster, count)| (parent(cluster), count)));
        }
        Ok(counts)
    }

    /// Events that arrived, in that order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.event.arrived", skip_all)]
    pub async fn arrived_events(
        &self,
        of: &AccountEvents,
        arrivals: &[Arrivals],
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let columns = (Column::ArrivedAt, Column::ClusterId, Column::OccurredAt, Column::Id);
        let of_clusters = self.of_clusters(&of.clusters, Column::ClusterId);
        let condition = of.condition().add_option(of_clusters);
        self.as_arrived(arrivals, columns, condition, EventSort::AsArrived, limit).await
    }

    /// Writes the events of a report.
    pub(crate) async fn record_events(
        &self,
        cluster: ClusterId,
        arrival: i64,
        reports: &[EventReport],
    ) -> Result<(), StoreError> {
        // By key: transactions must lock in one order.
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
        self.insert::<Entity>(rows.into_values().collect(), &first_wins::<Entity>()).await?;
        Ok(())
    }
}
