//! Rows and pages that several fields of one request ask for, read in one statement each.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use async_graphql::dataloader::Loader;
use entity::{
    cluster, computation, error_occurrence,
    ids::{ClusterId, ComputationId, TaskGroupId, UserId},
    task_group, user,
};

use crate::store::{
    AccountStore, ComputationSort, ErrorParent, ErrorSort, StoreError, TaskGroupParent, TaskGroupSort,
    page::{Page, PageRequest},
};

/// Reads for the loader of one request.
pub(super) struct Reader(pub(super) AccountStore);

/// The key of one page of a parent's list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PageOf<Parent, Sort> {
    pub(super) parent: Parent,
    pub(super) sort: Sort,
    pub(super) request: PageRequest,
}

/// The key of the number of items in a parent's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CountOf<Parent, Sort>(pub(super) Parent, pub(super) Sort);

impl Loader<UserId> for Reader {
    type Value = user::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[UserId]) -> Result<HashMap<UserId, user::Model>, Self::Error> {
        Ok(self.0.users_by_id(keys).await?)
    }
}

impl Loader<ClusterId> for Reader {
    type Value = cluster::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ClusterId]) -> Result<HashMap<ClusterId, cluster::Model>, Self::Error> {
        Ok(self.0.clusters_by_id(keys).await?.into_iter().map(|row| (row.id, row)).collect())
    }
}

impl Loader<(ClusterId, ComputationId)> for Reader {
    type Value = computation::Model;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[(ClusterId, ComputationId)],
    ) -> Result<HashMap<(ClusterId, ComputationId), computation::Model>, Self::Error> {
        let rows = self.0.computations_by_id(keys).await?;
        Ok(rows.into_iter().map(|row| ((row.cluster_id, row.id), row)).collect())
    }
}

impl Loader<(ClusterId, TaskGroupId)> for Reader {
    type Value = task_group::Model;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[(ClusterId, TaskGroupId)],
    ) -> Result<HashMap<(ClusterId, TaskGroupId), task_group::Model>, Self::Error> {
        let rows = self.0.task_groups_by_id(keys).await?;
        Ok(rows.into_iter().map(|row| ((row.cluster_id, row.id), row)).collect())
    }
}

/// A list every parent has one of, as the store reads it.
pub(super) trait ParentList<Parent, Sort> {
    /// An item of the list.
    type Row;

    /// The same page of each parent's list, in the order of `parents`.
    fn pages(
        &self,
        parents: &[Parent],
        sort: Sort,
        request: &PageRequest,
    ) -> impl Future<Output = Result<Vec<Page<Self::Row>>, StoreError>> + Send;

    /// How long each parent's list is; parents with an empty one may be missing.
    fn counts(
        &self,
        parents: &[Parent],
    ) -> impl Future<Output = Result<HashMap<Parent, i64>, StoreError>> + Send;
}

impl ParentList<ClusterId, ComputationSort> for AccountStore {
    type Row = computation::Model;

    async fn pages(
        &self,
        parents: &[ClusterId],
        sort: ComputationSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Self::Row>>, StoreError> {
        self.computation_pages(parents, sort, request).await
    }

    async fn counts(&self, parents: &[ClusterId]) -> Result<HashMap<ClusterId, i64>, StoreError> {
        self.computation_counts(parents).await
    }
}

impl ParentList<TaskGroupParent, TaskGroupSort> for AccountStore {
    type Row = task_group::Model;

    async fn pages(
        &self,
        parents: &[TaskGroupParent],
        sort: TaskGroupSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Self::Row>>, StoreError> {
        self.task_group_pages(parents, sort, request).await
    }

    async fn counts(&self, parents: &[TaskGroupParent]) -> Result<HashMap<TaskGroupParent, i64>, StoreError> {
        self.task_group_counts(parents).await
    }
}

impl ParentList<ErrorParent, ErrorSort> for AccountStore {
    type Row = error_occurrence::Model;

    async fn pages(
        &self,
        parents: &[ErrorParent],
        sort: ErrorSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Self::Row>>, StoreError> {
        self.error_pages(parents, sort, request).await
    }

    async fn counts(&self, parents: &[ErrorParent]) -> Result<HashMap<ErrorParent, i64>, StoreError> {
        self.error_counts(parents).await
    }
}

impl<Parent, Sort> Loader<PageOf<Parent, Sort>> for Reader
where
    AccountStore: ParentList<Parent, Sort, Row: Clone + Send + Sync + 'static>,
    Parent: Clone + Copy + Eq + Hash + Send + Sync + 'static,
    Sort: Clone + Copy + Eq + Hash + Send + Sync + 'static,
{
    type Value = Page<<AccountStore as ParentList<Parent, Sort>>::Row>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[PageOf<Parent, Sort>],
    ) -> Result<HashMap<PageOf<Parent, Sort>, Self::Value>, Self::Error> {
        // One statement for all parents whose lists are asked for in the same way.
        let mut alike: HashMap<(Sort, &PageRequest), Vec<Parent>> = HashMap::new();
        for key in keys {
            alike.entry((key.sort, &key.request)).or_default().push(key.parent);
        }
        let mut found = HashMap::new();
        for ((sort, request), parents) in alike {
            let pages = self.0.pages(&parents, sort, request).await?;
            let keys = parents.into_iter().map(|parent| PageOf { parent, sort, request: request.clone() });
            found.extend(keys.zip(pages));
        }
        Ok(found)
    }
}

impl<Parent, Sort> Loader<CountOf<Parent, Sort>> for Reader
where
    AccountStore: ParentList<Parent, Sort>,
    Parent: Clone + Copy + Eq + Hash + Send + Sync + 'static,
    Sort: Clone + Copy + Eq + Hash + Send + Sync + 'static,
{
    type Value = i64;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[CountOf<Parent, Sort>],
    ) -> Result<HashMap<CountOf<Parent, Sort>, i64>, Self::Error> {
        let parents: Vec<Parent> = keys.iter().map(|key| key.0).collect();
        let found = self.0.counts(&parents).await?;
        Ok(keys.iter().map(|key| (*key, found.get(&key.0).copied().unwrap_or(0))).collect())
    }
}
