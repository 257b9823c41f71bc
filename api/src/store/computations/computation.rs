//! Computations and their links to task groups.

use std::collections::{BTreeMap, HashMap};

use entity::{
    Timestamp,
    computation::{Column, Entity, Model, State},
    computation_share as share, computation_task_group as link,
    ids::{ClusterId, ComputationId},
    json_columns::SpanIds,
    task_group,
};
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, FromQueryResult, IdenStatic, JoinType, PaginatorTrait, QueryFilter,
    QuerySelect, RelationDef, Select,
    sea_query::{Expr, Func},
};

use super::{code_snippet::to_stored_stacks, task_group::used_by};
use crate::{
    domain::{
        answer::ComputationStateCount,
        report::{ComputationReport, ComputationShareReport},
        validated::UnixTime,
    },
    store::{
        clusters::{
            cluster_filter::ClusterFilter,
            cross_cluster::{TimeRange, overlaps, remaining_range},
        },
        core::{
            change_feed::PendingChanges,
            composite_in::{IsOneOf, one_of},
            error::StoreError,
            multi_list,
            page::{self, End, Key, Page, PageRequest, Slice, Sort},
            parent_list::ParentSort,
            read_rows::ReadSelect,
            scoped::AccountStore,
            search::scan_page,
            upsert::{keep_existing_row, keep_newest_row},
        },
        costs::usage_hour::sum_of_values,
    },
};

/// The orders computations can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComputationSort {
    /// The newest computation comes first, within one cluster.
    NewestFirst,
    /// The newest computation comes first, over all clusters.
    NewestOfAllFirst,
    /// Computations in the order of the changes that wrote their current values.
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

impl ParentSort for ComputationSort {
    type Parent = ComputationParent;

    fn select_rows(
        self,
        store: &AccountStore,
        parent: ComputationParent,
        request: &PageRequest,
    ) -> Select<Entity> {
        let (from, to) = parent.during;
        let (_, to) = remaining_range((None, to), self.descending(), request);
        store.select::<Entity>().filter(Column::ClusterId.eq(parent.cluster)).filter(ran_in((from, to)))
    }
}

/// Sums over the tasks of a computation: all tasks of its own task groups, and its share of groups that
/// other computations use as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromQueryResult)]
pub struct ComputationTotals {
    /// The number of tasks.
    pub tasks: i64,
    /// The number of times that a task's result came to be in memory.
    pub tasks_succeeded: i64,
    /// The number of tasks that erred themselves.
    pub tasks_erred: i64,
    /// The number of attempts that failed and were repeated.
    pub tasks_retried: i64,
    /// The time spent computing tasks that succeeded, in seconds.
    pub compute_seconds: f64,
    /// The time spent fetching inputs, in seconds.
    pub transfer_seconds: f64,
    /// The size of results, in bytes.
    pub bytes: i64,
    /// The number of tasks in this state, as in the fields that follow. `None` if there are none.
    pub released: Option<i64>,
    pub waiting: Option<i64>,
    pub no_worker: Option<i64>,
    pub queued: Option<i64>,
    pub processing: Option<i64>,
    pub memory: Option<i64>,
    pub erred: Option<i64>,
    pub forgotten: Option<i64>,
    /// The number of shares that include tasks of other computations.
    pub joint: i64,
}

/// The integers of [`ComputationTotals`], which have the names of the columns that they sum.
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

/// The computations of a cluster that ran in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComputationParent {
    /// The cluster.
    pub cluster: ClusterId,
    /// The period in which they ran.
    pub during: TimeRange,
}

/// A filter of the computations of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountComputations {
    /// Only computations of clusters that pass this filter.
    pub clusters: ClusterFilter,
    /// The range of the start.
    pub started_in: TimeRange,
    /// Only computations in one of these states.
    pub states: Option<Vec<State>>,
}

impl AccountStore {
    /// Returns a page of the computations of all clusters that pass a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.computation.page", skip_all)]
    pub async fn account_computation_page(
        &self,
        filter: &AccountComputations,
        sort: ComputationSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.select_in_range(
            Column::StartedAt,
            remaining_range(filter.started_in, sort.descending(), request),
        );
        scan_page(&self.read_executor(), select, self.account_computations(filter), sort, request).await
    }

    /// Counts the computations of all clusters that pass a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.computation.count", skip_all)]
    pub async fn account_computation_count(&self, filter: &AccountComputations) -> Result<u64, StoreError> {
        let computations = self
            .select_in_range::<Entity>(Column::StartedAt, filter.started_in)
            .filter(self.account_computations(filter));
        Ok(computations.count(&self.read_executor()).await?)
    }

    fn account_computations(&self, filter: &AccountComputations) -> Condition {
        Condition::all()
            .add_option(filter.states.as_ref().map(|states| Column::State.is_one_of(states.iter().copied())))
            .add_option(self.cluster_condition(&filter.clusters, Column::ClusterId))
    }

    /// Returns the totals of each computation. Computations without task groups are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
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
            .join(JoinType::LeftJoin, share_of_link())
            .filter(link::Column::AccountId.eq(self.account_id()))
            .filter(one_of(link::Column::ClusterId, link::Column::ComputationId, ids))
            .group_by(link::Column::ClusterId)
            .group_by(link::Column::ComputationId);
        // The computation's share if several computations use the group, and the whole group otherwise.
        let counted_value = |column: Group| {
            let share = Expr::col(("computation_shares", column.as_str()));
            Func::coalesce([share, Expr::col((task_group::Entity, column))])
        };
        for column in WHOLE {
            let sum = sum_of_values(self.backend(), counted_value(column).into());
            select = select.expr_as(sum, column.as_str());
        }
        for column in [Group::ComputeSeconds, Group::TransferSeconds] {
            select = select.expr_as(Func::sum(counted_value(column)), column.as_str());
        }
        let joint = Expr::cust("CASE WHEN computation_shares.joint THEN 1 ELSE 0 END");
        select = select.expr_as(Func::cast_as(Func::sum(joint), "bigint"), "joint");
        let rows: Vec<TotalsRow> = select.into_model().all(&self.read_executor()).await?;
        Ok(rows.into_iter().map(|row| ((row.cluster_id, row.computation_id), row.totals)).collect())
    }

    /// Returns the same page of the computations of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.computation.pages", skip_all)]
    pub async fn computation_pages(
        &self,
        parents: &[ComputationParent],
        sort: ComputationSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        self.parent_pages(parents, sort, request).await
    }

    /// Returns a slice of the computations of a cluster, the latest start first.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.computation.slice", skip_all)]
    pub async fn computation_slice(
        &self,
        cluster: ClusterId,
        slice: Slice,
    ) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        page::fetch_slice(&self.read_executor(), select, ComputationSort::NewestFirst, slice).await
    }

    /// Counts the computations of each parent. Parents without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.computation.counts", skip_all)]
    pub async fn computation_counts(
        &self,
        parents: &[ComputationParent],
    ) -> Result<HashMap<ComputationParent, i64>, StoreError> {
        let mut periods: HashMap<TimeRange, Vec<ClusterId>> = HashMap::new();
        for parent in parents {
            periods.entry(parent.during).or_default().push(parent.cluster);
        }
        let mut counts = HashMap::new();
        for (during, clusters) in periods {
            let rows: Vec<(ClusterId, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_one_of(clusters))
                .filter(ran_in(during))
                .group_by(Column::ClusterId)
                .read_tuples(&self.read_executor())
                .await?;
            let with_parent = |(cluster, count)| (ComputationParent { cluster, during }, count);
            counts.extend(rows.into_iter().map(with_parent));
        }
        Ok(counts)
    }

    /// Counts the computations of each cluster by state. Clusters without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.computation.states", skip_all)]
    pub async fn computation_states(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Vec<ComputationStateCount>>, StoreError> {
        let rows: Vec<(ClusterId, State, i64, Timestamp)> = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::State])
            .column_as(Column::Id.count(), "count")
            .column_as(Column::StartedAt.max(), "last_started_at")
            .filter(Column::ClusterId.is_one_of(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .group_by(Column::State)
            .read_tuples(&self.read_executor())
            .await?;
        let mut states_by_cluster: HashMap<ClusterId, Vec<ComputationStateCount>> = HashMap::new();
        for (cluster, state, count, last_started_at) in rows {
            let states = ComputationStateCount { state, count, last_started_at: last_started_at.0 };
            states_by_cluster.entry(cluster).or_default().push(states);
        }
        Ok(states_by_cluster)
    }

    /// Returns the newest computations in a state, at most `limit` of each cluster, in the order of
    /// `states`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.computation.newest_in_state", skip_all)]
    pub async fn newest_computations(
        &self,
        states: &[(ClusterId, State)],
        limit: u64,
    ) -> Result<Vec<Vec<Model>>, StoreError> {
        let selects = states.iter().map(|(cluster, state)| {
            self.select::<Entity>().filter(Column::ClusterId.eq(*cluster)).filter(Column::State.eq(*state))
        });
        let request = PageRequest::from(End::First, limit);
        let sort = ComputationSort::NewestFirst;
        let pages = multi_list::fetch_pages(&self.read_executor(), selects.collect(), sort, &request).await?;
        Ok(pages.into_iter().map(Page::into_rows).collect())
    }

    /// Returns the computations that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.computation.by_id", skip_all)]
    pub async fn computations_by_id(
        &self,
        ids: &[(ClusterId, ComputationId)],
    ) -> Result<Vec<Model>, StoreError> {
        let is_one_of_ids = one_of(Column::ClusterId, Column::Id, ids);
        Ok(self.select::<Entity>().filter(is_one_of_ids).read_models(&self.read_executor()).await?)
    }

    /// Returns computations that are new or changed, in the order of their arrival.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.computation.arrived", skip_all)]
    pub async fn arrived_computations(
        &self,
        filter: &AccountComputations,
        arrivals: &[PendingChanges],
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let columns = (Column::ArrivedAt, Column::ClusterId, Column::StartedAt, Column::Id);
        // A computation that changes now may have started at any time.
        let arrivals: Vec<_> =
            arrivals.iter().map(|filter| PendingChanges { since: None, ..*filter }).collect();
        let condition = self.account_computations(filter);
        self.fetch_in_arrival_order(&arrivals, columns, condition, ComputationSort::AsArrived, limit).await
    }

    /// Writes the computations of a report, with their links to task groups and their shares.
    pub(crate) async fn record_computations(
        &self,
        cluster: ClusterId,
        arrival: i64,
        sequence: i64,
        reports: &[ComputationReport],
    ) -> Result<(), StoreError> {
        // Sorted by identifier: a statement must not write a row twice, and locks must be taken in one order.
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
            code: to_stored_stacks(&report.code),
            arrived_at: arrival,
        });
        self.insert::<Entity>(rows.collect(), &keep_newest_row::<Entity>(Column::Sequence)).await?;
        let links = reports.values().flat_map(|report| {
            report.task_group_ids.iter().map(|task_group| link::Model {
                account_id: self.account_id(),
                cluster_id: cluster,
                computation_id: report.id,
                task_group_id: *task_group,
            })
        });
        self.insert::<link::Entity>(links.collect(), &keep_existing_row::<link::Entity>()).await?;
        let shares = reports.values().flat_map(|report| {
            let shares: BTreeMap<_, _> =
                report.task_group_shares.iter().map(|share| (share.task_group_id, share)).collect();
            shares.into_values().map(|share| self.share(cluster, report.id, sequence, share))
        });
        self.insert::<share::Entity>(
            shares.collect(),
            &keep_newest_row::<share::Entity>(share::Column::Sequence),
        )
        .await?;
        Ok(())
    }

    fn share(
        &self,
        cluster: ClusterId,
        computation: ComputationId,
        sequence: i64,
        report: &ComputationShareReport,
    ) -> share::Model {
        share::Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            computation_id: computation,
            task_group_id: report.task_group_id,
            sequence,
            joint: report.joint,
            tasks: report.tasks.get(),
            tasks_succeeded: report.tasks_succeeded.get(),
            tasks_erred: report.tasks_erred.get(),
            tasks_retried: report.tasks_retried.get(),
            released: report.states.released.get(),
            waiting: report.states.waiting.get(),
            no_worker: report.states.no_worker.get(),
            queued: report.states.queued.get(),
            processing: report.states.processing.get(),
            memory: report.states.memory.get(),
            erred: report.states.erred.get(),
            forgotten: report.states.forgotten.get(),
            compute_seconds: report.durations.compute,
            transfer_seconds: report.durations.transfer,
            bytes: report.bytes.get(),
        }
    }
}

/// Returns the condition that a computation ran in a period.
fn ran_in(during: TimeRange) -> Condition {
    overlaps(Expr::col((Entity, Column::StartedAt)), &Expr::col((Entity, Column::StoppedAt)), during)
}

/// Returns the relation from a computation's link to a task group to its share of the group, within one
/// account and cluster.
fn share_of_link() -> RelationDef {
    link::Entity::belongs_to(share::Entity)
        .from((
            link::Column::AccountId,
            link::Column::ClusterId,
            link::Column::ComputationId,
            link::Column::TaskGroupId,
        ))
        .to((
            share::Column::AccountId,
            share::Column::ClusterId,
            share::Column::ComputationId,
            share::Column::TaskGroupId,
        ))
        .into()
}
