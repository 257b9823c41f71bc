//! Workers, listed by cluster.

use std::collections::{BTreeMap, HashMap};

use entity::{
    ids::{ClusterId, WorkerId},
    json_columns::{Counts, Names},
    worker::{Column, End as WorkerEnd, Entity, Model},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    sea_query::Expr,
};

use crate::{
    domain::{
        report::WorkerReport,
        validated::{Count, UnixTime},
    },
    store::core::{
        composite_in::{IsOneOf, one_of},
        error::StoreError,
        multi_list,
        page::{End, Key, KeyPart, Page, PageRequest, Sort},
        read_rows::ReadSelect,
        scoped::AccountStore,
        upsert::keep_newest_row,
    },
};

/// The sort orders of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerSort {
    /// By the time of joining, the oldest first.
    OldestFirst,
}

impl Sort for WorkerSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "started_at:asc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::StartedAt, Column::Id]
    }

    fn descending(self) -> bool {
        false
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.started_at.into(), row.id.into()])
    }
}

/// The workers of a cluster, in any state or in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkerParent {
    /// The cluster.
    pub cluster: ClusterId,
    /// True for workers that are connected, false for workers that have left. `None` for both.
    pub alive: Option<bool>,
}

impl WorkerParent {
    fn condition(self) -> Condition {
        let condition = Condition::all().add(Column::ClusterId.eq(self.cluster));
        match self.alive {
            Some(true) => condition.add(Column::EndedAt.is_null()),
            Some(false) => condition.add(Column::EndedAt.is_not_null()),
            None => condition,
        }
    }
}

/// The condition for workers that died.
fn has_died() -> Expr {
    Column::EndKind.is_one_of([WorkerEnd::Memory, WorkerEnd::Lost])
}

impl AccountStore {
    /// Returns the same page of the workers of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.worker.pages", skip_all)]
    pub async fn worker_pages(
        &self,
        parents: &[WorkerParent],
        sort: WorkerSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let select_workers = |parent: &WorkerParent| self.select::<Entity>().filter(parent.condition());
        multi_list::fetch_pages(
            &self.read_executor(),
            parents.iter().map(select_workers).collect(),
            sort,
            request,
        )
        .await
    }

    /// Returns the number of workers of each parent. Parents without workers may be missing from the
    /// map.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.worker.counts", skip_all)]
    pub async fn worker_counts(
        &self,
        parents: &[WorkerParent],
    ) -> Result<HashMap<WorkerParent, i64>, StoreError> {
        // One statement counts all workers and those that left. The number of connected workers is the
        // difference.
        let rows: Vec<(ClusterId, i64, i64)> = self
            .select::<Entity>()
            .select_only()
            .column(Column::ClusterId)
            .column_as(Column::Id.count(), "all")
            .column_as(Column::EndedAt.count(), "left")
            .filter(Column::ClusterId.is_one_of(parents.iter().map(|parent| parent.cluster)))
            .group_by(Column::ClusterId)
            .read_tuples(&self.read_executor())
            .await?;
        let counts = rows.into_iter().flat_map(|(cluster, total, departed)| {
            [(None, total), (Some(true), total - departed), (Some(false), departed)]
                .map(|(alive, count)| (WorkerParent { cluster, alive }, count))
        });
        Ok(counts.collect())
    }

    /// Returns the workers of each cluster that died, the latest to join first, at most `limit` per
    /// cluster, in the order of `clusters`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.worker.dead", skip_all)]
    pub async fn dead_workers(
        &self,
        clusters: &[ClusterId],
        limit: u64,
    ) -> Result<Vec<Vec<Model>>, StoreError> {
        let select_dead_workers = |cluster: &ClusterId| {
            self.select::<Entity>().filter(Column::ClusterId.eq(*cluster)).filter(has_died())
        };
        let request = PageRequest::from(End::Last, limit);
        let selects = clusters.iter().map(select_dead_workers).collect();
        let pages =
            multi_list::fetch_pages(&self.read_executor(), selects, WorkerSort::OldestFirst, &request)
                .await?;
        Ok(pages.into_iter().map(|page| page.into_rows().into_iter().rev().collect()).collect())
    }

    /// Returns the workers that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.worker.by_id", skip_all)]
    pub async fn workers_by_id(&self, ids: &[(ClusterId, WorkerId)]) -> Result<Vec<Model>, StoreError> {
        let is_one_of_ids = one_of(Column::ClusterId, Column::Id, ids);
        Ok(self.select::<Entity>().filter(is_one_of_ids).read_models(&self.read_executor()).await?)
    }

    /// Returns the connected workers of a cluster, at most `limit`, the latest to join.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.worker.connected", skip_all)]
    pub async fn connected_workers(
        &self,
        cluster: ClusterId,
        limit: u64,
    ) -> Result<Vec<WorkerId>, StoreError> {
        let connected = WorkerParent { cluster, alive: Some(true) };
        let select = self.select::<Entity>().filter(connected.condition()).select_only().column(Column::Id);
        let select = select.order_by_desc(Column::StartedAt).order_by_desc(Column::Id).limit(limit);
        Ok(select.read_column(&self.read_executor()).await?)
    }

    /// Returns the functions of the tasks that workers were processing when they died, by cluster: of each
    /// worker its counts, or `None` if they are unknown. Of each cluster at most `max_per_cluster` workers,
    /// the last to end. Clusters without such workers are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.worker.functions_of_dead", skip_all)]
    pub async fn functions_of_dead_workers(
        &self,
        clusters: &[ClusterId],
        max_per_cluster: u64,
    ) -> Result<HashMap<ClusterId, Vec<Option<Counts>>>, StoreError> {
        // One arm of the union per cluster, each with a limit of its own.
        let arms = clusters.iter().map(|cluster| {
            let select = self.select::<Entity>().filter(Column::ClusterId.eq(*cluster)).filter(has_died());
            let select = select.select_only().columns([Column::ClusterId, Column::ProcessingFunctions]);
            let select =
                select.order_by_desc(Column::EndedAt).order_by_desc(Column::Id).limit(max_per_cluster);
            select.into_query()
        });
        let Some(statement) = multi_list::union_all(arms) else { return Ok(HashMap::new()) };
        let mut functions_by_cluster: HashMap<ClusterId, Vec<Option<Counts>>> = HashMap::new();
        for row in self.read_executor().query_all(&statement).await? {
            let (cluster, functions) = row.try_get_many_by_index()?;
            functions_by_cluster.entry(cluster).or_default().push(functions);
        }
        Ok(functions_by_cluster)
    }

    /// Upserts the workers of a report.
    pub(crate) async fn record_workers(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[WorkerReport],
    ) -> Result<(), StoreError> {
        // The rows are sorted by identifier, since a statement must not contain a row twice and all
        // transactions must lock in the same order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (report.id, report)).collect();
        let rows = reports.values().map(|report| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            id: report.id,
            sequence,
            number: report.number.map(Count::get),
            name: report.name.as_str().to_owned(),
            address: report.address.as_str().to_owned(),
            host: report.host.as_ref().map(|host| host.as_str().to_owned()),
            environment_id: report.environment_id,
            threads: report.threads.get(),
            memory_limit_bytes: report.memory_limit_bytes.map(Count::get),
            started_at: report.started_at.timestamp(),
            ended_at: report.ended_at.map(UnixTime::timestamp),
            end_kind: report.end.map(Into::into),
            processing_keys: Names(
                report.processing_keys.iter().map(|key| key.as_str().to_owned()).collect(),
            ),
            processing: report.processing.get(),
            processing_functions: report.processing_functions.as_ref().map(|functions| {
                Counts(
                    functions
                        .iter()
                        .map(|(prefix, tasks)| (prefix.as_str().to_owned(), tasks.get()))
                        .collect(),
                )
            }),
            lost_results: report.lost_results.get(),
            last_memory_bytes: report.last_memory_bytes.map(Count::get),
            peak_memory_bytes: report.peak_memory_bytes.map(Count::get),
            last_seen_at: report.last_seen_at.map(UnixTime::timestamp),
        });
        self.insert::<Entity>(rows.collect(), &keep_newest_row::<Entity>(Column::Sequence)).await?;
        Ok(())
    }
}
