//! How many threads a cluster had, and since when.

use std::collections::{BTreeMap, HashMap};

use entity::{
    ids::{ClusterId, KeyTime},
    thread_change::{Column, Entity, Model},
};
use sea_orm::{ColumnTrait, QueryFilter, QuerySelect};

use super::{
    error::StoreError,
    lists,
    page::{Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    upsert::first_wins,
};
use crate::domain::report::ThreadChange;

/// The orders changes of a cluster's size can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadChangeSort {
    /// The first change comes first.
    OldestFirst,
}

impl Sort for ThreadChangeSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "changed_at:asc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::ChangedAt]
    }

    fn descending(self) -> bool {
        false
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.changed_at.into()])
    }
}

impl AccountStore {
    /// The same page of the changes of each cluster's size, in the order of `clusters`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.thread_change.pages", skip_all)]
    pub async fn thread_change_pages(
        &self,
        clusters: &[ClusterId],
        sort: ThreadChangeSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let of = |cluster: &ClusterId| self.select::<Entity>().filter(Column::ClusterId.eq(*cluster));
        lists::fetch_each(&self.reads(), clusters.iter().map(of).collect(), sort, request).await
    }

    /// How many changes of its size each cluster saw; clusters without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.thread_change.counts", skip_all)]
    pub async fn thread_change_counts(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, i64>, StoreError> {
        let rows: Vec<(ClusterId, i64)> = self
            .select::<Entity>()
            .select_only()
            .column(Column::ClusterId)
            .column_as(Column::ChangedAt.count(), "count")
            .filter(Column::ClusterId.is_in(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .into_tuple()
            .all(&self.reads())
            .await?;
        Ok(rows.into_iter().collect())
    }

    /// Writes the changes of a cluster's size in a report.
    pub(crate) async fn record_thread_history(
        &self,
        cluster: ClusterId,
        changes: &[ThreadChange],
    ) -> Result<(), StoreError> {
        // By time: a statement must not meet a row twice, and transactions must lock in one order. Of changes within one
        // millisecond, as when workers leave together, the last one tells how many threads there are from then on. They are in
        // one report but for the rare case that one ends between them; what is sent again must change nothing.
        let rows: BTreeMap<KeyTime, Model> = changes
            .iter()
            .map(|change| {
                let changed_at = KeyTime::from(change.at.timestamp());
                let (account_id, threads) = (self.account_id(), change.threads.get());
                (changed_at, Model { account_id, cluster_id: cluster, changed_at, threads })
            })
            .collect();
        self.insert::<Entity>(rows.into_values().collect(), &first_wins::<Entity>()).await?;
        Ok(())
    }
}
