//! Workers, listed by cluster.

use std::collections::{BTreeMap, HashMap};

use entity::{
    ids::{ClusterId, WorkerId},
    list::Names,
    worker::{Column, End as WorkerEnd, Entity, Model},
};
use sea_orm::{ColumnTrait, Condition, QueryFilter, QuerySelect};

use super::{
    error::StoreError,
    lists,
    one_of::one_of,
    page::{End, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    upsert::newest_wins,
};
use crate::domain::{
    bounded::{Count, UnixTime},
    report::WorkerReport,
};

/// The orders workers can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerSort {
    /// The worker that joined first comes first.
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

/// Which workers of which cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkerParent {
    /// The cluster.
    pub cluster: ClusterId,
    /// Only those that are there, or only those that left.
    pub alive: Option<bool>,
}

impl WorkerParent {
    fn condition(self) -> Condition {
        let all = Condition::all().add(Column::ClusterId.eq(self.cluster));
        match self.alive {
            Some(true) => all.add(Column::EndedAt.is_null()),
            Some(false) => all.add(Column::EndedAt.is_not_null()),
            None => all,
        }
    }
}

impl AccountStore {
    /// The same page of the workers of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.worker.pages", skip_all)]
    pub async fn worker_pages(
        &self,
        parents: &[WorkerParent],
        sort: WorkerSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let of = |parent: &WorkerParent| self.select::<Entity>().filter(parent.condition());
        lists::fetch_each(&self.reads(), parents.iter().map(of).collect(), sort, request).await
    }

    /// How many workers each parent has; parents without any may be missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.worker.counts", skip_all)]
    pub async fn worker_counts(
        &self,
        parents: &[WorkerParent],
    ) -> Result<HashMap<WorkerParent, i64>, StoreError> {
        // Those that left counted apart: how many there are in all and are still there follows.
        let rows: Vec<(ClusterId, i64, i64)> = self
            .select::<Entity>()
            .select_only()
            .column(Column::ClusterId)
            .column_as(Column::Id.count(), "all")
            .column_as(Column::EndedAt.count(), "left")
            .filter(Column::ClusterId.is_in(parents.iter().map(|parent| parent.cluster)))
            .group_by(Column::ClusterId)
            .into_tuple()
            .all(&self.reads())
            .await?;
        let counts = rows.into_iter().flat_map(|(cluster, all, left)| {
            [(None, all), (Some(true), all - left), (Some(false), left)]
                .map(|(alive, count)| (WorkerParent { cluster, alive }, count))
        });
        Ok(counts.collect())
    }

    /// The workers that died, at most `limit` of each cluster, those that joined last first, in the order of
    /// `clusters`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.worker.dead", skip_all)]
    pub async fn dead_workers(
        &self,
        clusters: &[ClusterId],
        limit: u64,
    ) -> Result<Vec<Vec<Model>>, StoreError> {
        let of = |cluster: &ClusterId| {
            let died = Column::EndKind.is_in([WorkerEnd::Memory, WorkerEnd::Lost]);
            self.select::<Entity>().filter(Column::ClusterId.eq(*cluster)).filter(died)
        };
        let request = PageRequest::from(End::Last, limit);
        let selects = clusters.iter().map(of).collect();
        let pages = lists::fetch_each(&self.reads(), selects, WorkerSort::OldestFirst, &request).await?;
        Ok(pages.into_iter().map(|page| page.into_rows().into_iter().rev().collect()).collect())
    }

    /// The workers that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.worker.by_id", skip_all)]
    pub async fn workers_by_id(&self, ids: &[(ClusterId, WorkerId)]) -> Result<Vec<Model>, StoreError> {
        let these = one_of(Column::ClusterId, Column::Id, ids);
        Ok(self.select::<Entity>().filter(these).all(&self.reads()).await?)
    }

    /// Writes what a report says of workers.
    pub(crate) async fn record_workers(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[WorkerReport],
    ) -> Result<(), StoreError> {
        // By identifier: a statement must not meet a row twice, and transactions must lock in one order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (report.id, report)).collect();
        let rows = reports.values().map(|report| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            id: report.id,
            sequence,
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
            lost_results: report.lost_results.get(),
            last_memory_bytes: report.last_memory_bytes.map(Count::get),
            last_seen_at: report.last_seen_at.map(UnixTime::timestamp),
        });
        self.insert::<Entity>(rows.collect(), &newest_wins::<Entity>(Column::Sequence)).await?;
        Ok(())
    }
}
