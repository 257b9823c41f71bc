//! The changes of a cluster's number of threads.

use std::collections::{BTreeMap, HashMap};

use entity::{
    ids::{ClusterId, KeyTime},
    thread_change::{Column, Entity, Model},
};
use sea_orm::{ColumnTrait, QueryFilter, QuerySelect};

use crate::{
    domain::report::ThreadChange,
    store::core::{
        composite_in::IsOneOf,
        error::StoreError,
        multi_list,
        page::{Key, KeyPart, Page, PageRequest, Sort},
        read_rows::ReadSelect,
        scoped::AccountStore,
        upsert::keep_existing_row,
    },
};

/// The sort orders of changes of a cluster's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadChangeSort {
    /// By time, the oldest first.
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
    /// Returns the same page of the changes of each cluster's size, in the order of `clusters`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.thread_change.pages", skip_all)]
    pub async fn thread_change_pages(
        &self,
        clusters: &[ClusterId],
        sort: ThreadChangeSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let select_changes =
            |cluster: &ClusterId| self.select::<Entity>().filter(Column::ClusterId.eq(*cluster));
        multi_list::fetch_pages(
            &self.read_executor(),
            clusters.iter().map(select_changes).collect(),
            sort,
            request,
        )
        .await
    }

    /// Returns the number of changes of each cluster's size. Clusters without changes are missing from
    /// the map.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
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
            .filter(Column::ClusterId.is_one_of(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .read_tuples(&self.read_executor())
            .await?;
        Ok(rows.into_iter().collect())
    }

    /// Inserts the changes of a cluster's size in a report.
    pub(crate) async fn record_thread_history(
        &self,
        cluster: ClusterId,
        changes: &[ThreadChange],
    ) -> Result<(), StoreError> {
        // The rows are sorted by time, since a statement must not contain a row twice and all
        // transactions must lock in the same order. Of several changes within one millisecond, as when
        // workers leave together, the last one is the number of threads from then on. They are in the
        // same report, except in the rare case that a report ends between them. A change that is sent
        // again must change nothing.
        let rows: BTreeMap<KeyTime, Model> = changes
            .iter()
            .map(|change| {
                let changed_at = KeyTime::from(change.at.timestamp());
                let (account_id, threads) = (self.account_id(), change.threads.get());
                (changed_at, Model { account_id, cluster_id: cluster, changed_at, threads })
            })
            .collect();
        self.insert::<Entity>(rows.into_values().collect(), &keep_existing_row::<Entity>()).await?;
        Ok(())
    }
}
