//! Computations and their links to task groups.

use std::collections::{BTreeMap, HashMap};

use entity::{
    Timestamp,
    computation::{Column, Entity, Model, State},
    computation_task_group as link,
    ids::{ClusterId, ComputationId},
    list::SpanIds,
    task_group,
};
use sea_orm::{
    ColumnTrait, Condition, FromQueryResult, IdenStatic, JoinType, PaginatorTrait, QueryFilter, QuerySelect,
};

use super::{
    account_list::{TimeRange, unsaid},
    arrival::Arrivals,
    cluster_filter::ClusterFilter,
    code_snippet::stacks,
    error::StoreError,
    lists,
    one_of::one_of,
    page::{self, End, Key, Page, PageRequest, Slice, Sort},
    scoped::AccountStore,
    search::search,
    task_group::used_by,
    upsert::{first_wins, newest_wins},
    usage_hour::sum_of,
};
use crate::domain::{answer::ComputationStates, bounded::UnixTime, report::ComputationReport};

/// The orders computations can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComputationSort {
    /// The computation that started last comes first.
    NewestFirst,
    /// The same over all clusters.
    NewestOfAllFirst,
    /// In the order in which they became as they are.
    AsArrived,
}

impl Sort for ComputationSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        match self {
            Self::NewestFirst => "started_at:desc",
            Self::NewestOfAllFirst => "started_at,cluster_id:desc",
            Self::AsArrived => "arrived_at:asc",
        }
    }

    fn columns(self) -> Vec<Column> {
        match self {
            Self::NewestFirst => vec![Column::StartedAt, Column::Id],
            Self::NewestOfAllFirst => vec![Column::StartedAt, Column::ClusterId, Column::Id],
            Self::AsArrived => vec![Column::ArrivedAt, Column::ClusterId, Column::StartedAt, Column::Id],
        }
    }

    fn descending(self) -> bool {
        self != Self::AsArrived
    }

    fn accepts(self, key: &Key) -> bool {
        match self {
            Self::NewestFirst => key.is_time_in_cluster(),
            Self::NewestOfAllFirst => key.is_time_in_account(),
            // Streams have cursors of their own.
            Self::AsArrived => false,
        }
    }

    fn key(self, row: &Model) -> Key {
        match self {
            Self::NewestFirst => Key::time_in_cluster(row.started_at, row.id),
            Self::NewestOfAllFirst => Key::time_in_account(row.started_at, row.cluster_id, row.id),
            Self::AsArrived => Key::arrival(row.arrived_at, row.cluster_id, row.started_at, row.id),
        }
    }
}

/// Sums over the task groups of a computation, as Dask's own `Computation` has them: a group that others use, too, counts all of
/// its tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromQueryResult)]
pub struct ComputationTotals {
    /// Tasks they ever had.
    pub tasks: i64,
    /// Times one of them came to be in memory.
    pub tasks_succeeded: i64,
    /// Those that erred themselves.
    pub tasks_erred: i64,
    /// Attempts that failed and were tried again.
    pub tasks_retried: i64,
    /// Computing tasks that succeeded.
    pub compute_seconds: f64,
    /// Fetching their inputs.
    pub transfer_seconds: f64,
    /// Bytes of results.
    pub bytes: i64,
    /// Tasks in this state, as in those that follow; nothing where there are none.
    pub released: Option<i64>,
    pub waiting: Option<i64>,
    pub no_worker: Option<i64>,
    pub queued: Option<i64>,
    pub processing: Option<i64>,
    pub memory: Option<i64>,
    pub erred: Option<i64>,
    pub forgotten: Option<i64>,
}

/// The whole numbers of it, which have the names of the columns they sum.
const WHOLE: [task_group::Column; 13] = {
    use task_group::Column as Group;
    [
        Group::Tasks,
        Group::TasksSucceeded,
        Group::TasksErred,
        Group::TasksRetried,
        Group::Bytes,
        Group::Released,
        Group::Waiting,
        Group::NoWorker,
        Group::Queued,
        Group::Processing,
        Group::Memory,
        Group::Erred,
        Group::Forgotten,
    ]
};

#[derive(FromQueryResult)]
struct TotalsRow {
    cluster_id: ClusterId,
    computation_id: ComputationId,
    #[sea_orm(nested)]
    totals: ComputationTotals,
}

/// Which computations of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountComputations {
    /// Of which clusters.
    pub clusters: ClusterFilter,
    /// Submitted when.
    pub started_in: TimeRange,
    /// In one of these states.
    pub states: Option<Vec<State>>,
}

impl AccountStore {
    /// A page of the computations of all clusters that a filter passes.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.computation.page", skip_all)]
    pub async fn account_computation_page(
        &self,
        of: &AccountComputations,
        sort: ComputationSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.during(Column::StartedAt, unsaid(of.started_in, sort.descending(), request));
        search(&self.reads(), select, self.account_computations(of), sort, request).await
    }

    /// How many computations of all clusters a filter passes.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.computation.count", skip_all)]
    pub async fn account_computation_count(&self, of: &AccountComputations) -> Result<u64, StoreError> {
        let all =
            self.during::<Entity>(Column::StartedAt, of.started_in).filter(self.account_computations(of));
        Ok(all.count(&self.reads()).await?)
    }

    fn account_computations(&self, of: &AccountComputations) -> Condition {
        Condition::all()
            .add_option(of.states.as_ref().map(|states| Column::State.is_in(states.iter().copied())))
            .add_option(self.of_clusters(&of.clusters, Column::ClusterId))
    }

    /// What the task groups of each computation come to; those without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.computation.totals", skip_all)]
    pub async fn computation_totals(
        &self,
        ids: &[(ClusterId, ComputationId)],
    ) -> Result<HashMap<(ClusterId, ComputationId), ComputationTotals>, StoreError> {
        use task_group::Column as Group;
        let mut select = self
            .select::<task_group::Entity>()
            .select_only()
            .columns([link::Column::ClusterId, link::Column::ComputationId])
            .join(JoinType::InnerJoin, used_by())
            .filter(link::Column::AccountId.eq(self.account_id()))
            .filter(one_of(link::Column::ClusterId, link::Column::ComputationId, ids))
            .group_by(link::Column::ClusterId)
            .group_by(link::Column::ComputationId);
        for column in WHOLE {
            select = select.expr_as(sum_of((task_group::Entity, column)), column.as_str());
        }
        for column in [Group::ComputeSeconds, Group::TransferSeconds] {
            select = select.expr_as(column.sum(), column.as_str());
        }
        let rows: Vec<TotalsRow> = select.into_model().all(&self.reads()).await?;
        Ok(rows.into_iter().map(|row| ((row.cluster_id, row.computation_id), row.totals)).collect())
    }

    /// The same page of the computations of each cluster, in the order of `clusters`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.computation.pages", skip_all)]
    pub async fn computation_pages(
        &self,
        clusters: &[ClusterId],
        sort: ComputationSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let of = |cluster: &ClusterId| self.select::<Entity>().filter(Column::ClusterId.eq(*cluster));
        lists::fetch_each(&self.reads(), clusters.iter().map(of).collect(), sort, request).await
    }

    /// A slice of the computations of a cluster, those that started last first.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.computation.slice", skip_all)]
    pub async fn computation_slice(
        &self,
        cluster: ClusterId,
        slice: Slice,
    ) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        page::fetch_slice(&self.reads(), select, ComputationSort::NewestFirst, slice).await
    }

    /// How many computations each cluster has; clusters without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.computation.counts", skip_all)]
    pub async fn computation_counts(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, i64>, StoreError> {
        let counts: Vec<(ClusterId, i64)> = self
            .select::<Entity>()
            .select_only()
            .column(Column::ClusterId)
            .column_as(Column::Id.count(), "count")
            .filter(Column::ClusterId.is_in(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .into_tuple()
            .all(&self.reads())
            .await?;
        Ok(counts.into_iter().collect())
    }

    /// How many computations of each cluster are in which state; clusters without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.computation.states", skip_all)]
    pub async fn computation_states(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Vec<ComputationStates>>, StoreError> {
        let rows: Vec<(ClusterId, State, i64, Timestamp)> = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::State])
            .column_as(Column::Id.count(), "count")
            .column_as(Column::StartedAt.max(), "last_started_at")
            .filter(Column::ClusterId.is_in(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .group_by(Column::State)
            .into_tuple()
            .all(&self.reads())
            .await?;
        let mut found: HashMap<ClusterId, Vec<ComputationStates>> = HashMap::new();
        for (cluster, state, count, last) in rows {
            let states = ComputationStates { state, count, last_started_at: last.0 };
            found.entry(cluster).or_default().push(states);
        }
        Ok(found)
    }

    /// The newest computations in a state, at most `limit` of each cluster, in the order of `of`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.computation.newest_in_state", skip_all)]
    pub async fn newest_computations(
        &self,
        of: &[(ClusterId, State)],
        limit: u64,
    ) -> Result<Vec<Vec<Model>>, StoreError> {
        let selects = of.iter().map(|(cluster, state)| {
            self.select::<Entity>().filter(Column::ClusterId.eq(*cluster)).filter(Column::State.eq(*state))
        });
        let request = PageRequest::from(End::First, limit);
        let sort = ComputationSort::NewestFirst;
        let pages = lists::fetch_each(&self.reads(), selects.collect(), sort, &request).await?;
        Ok(pages.into_iter().map(Page::into_rows).collect())
    }

    /// The computations that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.computation.by_id", skip_all)]
    pub async fn computations_by_id(
        &self,
        ids: &[(ClusterId, ComputationId)],
    ) -> Result<Vec<Model>, StoreError> {
        let these = one_of(Column::ClusterId, Column::Id, ids);
        Ok(self.select::<Entity>().filter(these).all(&self.reads()).await?)
    }

    /// Computations that arrived, as new ones or changed, in that order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.computation.arrived", skip_all)]
    pub async fn arrived_computations(
        &self,
        of: &AccountComputations,
        arrivals: &[Arrivals],
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let columns = (Column::ArrivedAt, Column::ClusterId, Column::StartedAt, Column::Id);
        // What changes now may have begun at any time.
        let arrivals: Vec<_> = arrivals.iter().map(|of| Arrivals { since: None, ..*of }).collect();
        let condition = self.account_computations(of);
        self.as_arrived(&arrivals, columns, condition, ComputationSort::AsArrived, limit).await
    }

    /// Writes what a report says of computations, and the links it names.
    pub(crate) async fn record_computations(
        &self,
        cluster: ClusterId,
        arrival: i64,
        sequence: i64,
        reports: &[ComputationReport],
    ) -> Result<(), StoreError> {
        // By identifier: a statement must not meet a row twice, and transactions must lock in one order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (report.id, report)).collect();
        let rows = reports.values().map(|report| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            id: report.id,
            sequence,
            state: report.state.into(),
            started_at: report.started_at.timestamp(),
            stopped_at: report.stopped_at.map(UnixTime::timestamp),
            span_ids: SpanIds(report.span_ids.to_vec()),
            code: stacks(&report.code),
            arrived_at: arrival,
        });
        self.insert::<Entity>(rows.collect(), &newest_wins::<Entity>(Column::Sequence)).await?;
        let links = reports.values().flat_map(|report| {
            report.task_group_ids.iter().map(|task_group| link::Model {
                account_id: self.account_id(),
                cluster_id: cluster,
                computation_id: report.id,
                task_group_id: *task_group,
            })
        });
        self.insert::<link::Entity>(links.collect(), &first_wins::<link::Entity>()).await?;
        Ok(())
    }
}
