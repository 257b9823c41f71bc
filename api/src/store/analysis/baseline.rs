//! Earlier runs for comparison: the runs of a user, and the workload of each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use entity::{
    Timestamp,
    cluster::{Column, Entity, Status},
    computation,
    ids::{ClusterId, UserId},
    span,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, ExprTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    sea_query::Expr,
};

use crate::{
    domain::answer::{EarlierRun, Workload},
    store::core::{
        composite_in::IsOneOf, error::StoreError, multi_list, read_rows::ReadSelect, scoped::AccountStore,
    },
};

/// The largest number of functions that are compared per run, those with the most compute time.
const MAX_FUNCTIONS: i64 = 100;

/// The largest number of distinct paths of outermost spans that are read at once.
const MAX_PATHS: u64 = 10_000;

/// The beginning of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunStart {
    /// The run's cluster.
    pub cluster: ClusterId,
    /// The user who started it.
    pub user: UserId,
    /// The time at which its scheduler started.
    pub started_at: Timestamp,
}

impl AccountStore {
    /// Returns the clusters that the same user started before each of these, the newest first, at most
    /// `limit` per cluster.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.baseline.earlier_runs", skip_all)]
    pub async fn earlier_runs(
        &self,
        beginnings: &[RunStart],
        limit: u64,
    ) -> Result<HashMap<ClusterId, Vec<EarlierRun>>, StoreError> {
        // Each cluster has its own arm with its own limit, so that each arm is a range of an index.
        let arms = beginnings.iter().map(|beginning| {
            let RunStart { cluster, user, started_at } = *beginning;
            let position =
                Expr::tuple([Column::StartedAt, Column::Id].map(|column| Expr::col((Entity, column))));
            let own_position = Expr::tuple([Expr::val(started_at.timestamp_millis()), Expr::val(cluster.0)]);
            // A run that its user interrupts has no failed task. The state of its last computation shows
            // it.
            let last_computation = self
                .select::<computation::Entity>()
                .select_only()
                .column(computation::Column::State)
                .filter(
                    Expr::col((computation::Entity, computation::Column::ClusterId))
                        .equals((Entity, Column::Id)),
                )
                .order_by_desc(computation::Column::StartedAt)
                .order_by_desc(computation::Column::Id)
                .limit(1)
                .into_query();
            self.select::<Entity>()
                .filter(Column::UserId.eq(user))
                .filter(position.lt(own_position))
                .select_only()
                .expr_as(Expr::val(cluster.0), "of_cluster")
                .columns([Column::Id, Column::Name, Column::StartedAt, Column::Status])
                .columns([Column::TotalTasks, Column::TotalTasksErred, Column::TotalErrors])
                .expr_as(Expr::SubQuery(None, Box::new(last_computation.into())), "last_computation")
                .order_by_desc(Column::StartedAt)
                .order_by_desc(Column::Id)
                .limit(limit)
                .into_query()
        });
        let Some(statement) = multi_list::union_all(arms) else { return Ok(HashMap::new()) };
        let mut runs: HashMap<ClusterId, Vec<(Timestamp, EarlierRun)>> = HashMap::new();
        for row in self.read_executor().query_all(&statement).await? {
            let (later_cluster, id, name, started_at, status, tasks, erred, errors, last_computation): (
                i64,
                ClusterId,
                Option<String>,
                Timestamp,
                Status,
                i64,
                i64,
                i64,
                Option<computation::State>,
            ) = row.try_get_many_by_index()?;
            // An account may refuse to store computations.
            let is_finished = last_computation.is_none_or(|state| state == computation::State::Finished);
            let is_good = status == Status::Closed && tasks > 0 && erred == 0 && errors == 0 && is_finished;
            runs.entry(ClusterId(later_cluster))
                .or_default()
                .push((started_at, EarlierRun { id, name, is_good }));
        }
        let sort_newest_first = |mut runs: Vec<(Timestamp, EarlierRun)>| {
            // SQL guarantees an order within each arm, but not in their union.
            runs.sort_by_key(|(started_at, run)| std::cmp::Reverse((started_at.0, run.id)));
            runs.into_iter().map(|(_, run)| run).collect()
        };
        Ok(runs.into_iter().map(|(cluster, runs)| (cluster, sort_newest_first(runs))).collect())
    }

    /// Returns the workload of each cluster. Clusters without a known workload are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.baseline.workloads", skip_all)]
    pub async fn workloads(
        &self,
        clusters: &[ClusterId],
    ) -> Result<BTreeMap<ClusterId, Workload>, StoreError> {
        use span::Column::{ClusterId as OfCluster, ParentId};
        // Paths are compared as text, because PostgreSQL cannot compare JSON values.
        let path = || Expr::cust(r#"CAST("spans"."path" AS text)"#);
        let outermost: Vec<(ClusterId, String)> = self
            .select::<span::Entity>()
            .select_only()
            .column(OfCluster)
            .expr_as(path(), "outermost")
            .filter(OfCluster.is_one_of(clusters.iter().copied()))
            .filter(ParentId.is_null())
            .group_by(OfCluster)
            .group_by(path())
            .limit(MAX_PATHS)
            .read_tuples(&self.read_executor())
            .await?;
        let mut workloads: BTreeMap<ClusterId, Workload> = BTreeMap::new();
        for (cluster, path) in outermost {
            let path: Vec<String> = serde_json::from_str(&path).unwrap_or_default();
            workloads.entry(cluster).or_default().tags.extend(path.into_iter().next());
        }
        for (cluster, functions) in self.functions_of_clusters(clusters, (None, None), MAX_FUNCTIONS).await? {
            let functions: BTreeSet<String> = functions.into_iter().map(|function| function.prefix).collect();
            workloads.entry(cluster).or_default().functions = functions;
        }
        Ok(workloads)
    }
}
