//! Batch loaders for rows and pages: each reads the rows that several fields of one request need in one
//! statement.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::Arc,
};

use async_graphql::dataloader::Loader;
use entity::{
    Timestamp, cluster, cluster_control, cluster_note, computation, data_policy, error_group,
    error_occurrence, event, idle_policy,
    ids::{AccountId, ClusterId, ComputationId, ErrorGroupId, TaskGroupId, UserId},
    log_line, task_group, user,
};

use crate::{
    domain::{tag::Tag, usage::Usage},
    store::{
        AccountStore, ComputationParent, ComputationSort, ComputationTotals, ErrorGroupCounts, ErrorParent,
        ErrorSort, EventParent, EventSort, LogParent, LogSort, StoreError, TaskGroupParent, TaskGroupSort,
        core::page::{Page, PageRequest},
    },
};

/// The maximum number of hours of usage that are read at once, over all requested clusters.
pub(crate) const MAX_HOURS: u64 = 10_000;

/// The reader behind the batch loader of one request.
pub(crate) struct StoreReader(pub(crate) AccountStore);

/// The loader key of one page of a parent's list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey<Parent, Sort> {
    pub(crate) parent: Parent,
    pub(crate) sort: Sort,
    pub(crate) request: PageRequest,
}

/// The loader key of the number of items in a parent's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountKey<Parent, Sort>(pub(crate) Parent, pub(crate) Sort);

/// The loader key of a cluster's usage, by day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClusterUsageKey(pub(crate) ClusterId);

impl Loader<ClusterUsageKey> for StoreReader {
    type Value = BTreeMap<i64, Usage>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ClusterUsageKey],
    ) -> Result<HashMap<ClusterUsageKey, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.usage_by_cluster_and_day(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, days)| (ClusterUsageKey(cluster), days)).collect())
    }
}

/// The loader key of a cluster's usage in a range of hours. It has no value if there are more than
/// [`MAX_HOURS`] hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UsageHoursKey {
    pub(crate) cluster: ClusterId,
    pub(crate) range: (i64, i64),
}

impl Loader<UsageHoursKey> for StoreReader {
    type Value = Vec<(i64, Usage)>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[UsageHoursKey]) -> Result<HashMap<UsageHoursKey, Self::Value>, Self::Error> {
        let mut clusters_by_range: HashMap<(i64, i64), Vec<ClusterId>> = HashMap::new();
        for key in keys {
            clusters_by_range.entry(key.range).or_default().push(key.cluster);
        }
        let mut found = HashMap::new();
        for (range, clusters) in clusters_by_range {
            let hours = self.0.usage_hours(&clusters, range, MAX_HOURS + 1).await?;
            if hours.len() as u64 > MAX_HOURS {
                continue;
            }
            let keys = clusters.into_iter().map(|cluster| (UsageHoursKey { cluster, range }, Vec::new()));
            found.extend(keys);
            for (cluster, hour, usage) in hours {
                found.entry(UsageHoursKey { cluster, range }).or_default().push((hour, usage));
            }
        }
        Ok(found)
    }
}

impl Loader<UserId> for StoreReader {
    type Value = user::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[UserId]) -> Result<HashMap<UserId, user::Model>, Self::Error> {
        Ok(self.0.users_by_id(keys).await?)
    }
}

impl Loader<ClusterId> for StoreReader {
    type Value = cluster::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ClusterId]) -> Result<HashMap<ClusterId, cluster::Model>, Self::Error> {
        Ok(self.0.clusters_by_id(keys).await?.into_iter().map(|row| (row.id, row)).collect())
    }
}

impl Loader<(ClusterId, ComputationId)> for StoreReader {
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

/// The loader key of the sums over a computation's task groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ComputationTotalsKey(pub(crate) (ClusterId, ComputationId));

impl Loader<ComputationTotalsKey> for StoreReader {
    type Value = ComputationTotals;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ComputationTotalsKey],
    ) -> Result<HashMap<ComputationTotalsKey, ComputationTotals>, Self::Error> {
        let computations: Vec<_> = keys.iter().map(|key| key.0).collect();
        let found = self.0.computation_totals(&computations).await?;
        Ok(found
            .into_iter()
            .map(|(computation, totals)| (ComputationTotalsKey(computation), totals))
            .collect())
    }
}

impl Loader<(ClusterId, TaskGroupId)> for StoreReader {
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

/// The loader key of the counts of an error group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ErrorGroupCountsKey(pub(crate) ErrorGroupId);

/// The loader key of the time of an error group's regression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RegressionKey(pub(crate) ErrorGroupId);

/// The loader key of a cluster's tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TagsKey(pub(crate) ClusterId);

/// The loader key of a cluster's notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NotesKey(pub(crate) ClusterId);

/// The loader key of an account's data policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DataPoliciesKey(pub(crate) AccountId);

impl Loader<ErrorGroupId> for StoreReader {
    type Value = error_group::Model;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ErrorGroupId],
    ) -> Result<HashMap<ErrorGroupId, error_group::Model>, Self::Error> {
        Ok(self.0.error_groups_by_id(keys).await?.into_iter().map(|row| (row.id, row)).collect())
    }
}

impl Loader<ErrorGroupCountsKey> for StoreReader {
    type Value = ErrorGroupCounts;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ErrorGroupCountsKey],
    ) -> Result<HashMap<ErrorGroupCountsKey, ErrorGroupCounts>, Self::Error> {
        let groups: Vec<ErrorGroupId> = keys.iter().map(|key| key.0).collect();
        let counts = self.0.error_group_counts(&groups).await?;
        Ok(counts.into_iter().map(|(group, counts)| (ErrorGroupCountsKey(group), counts)).collect())
    }
}

impl Loader<RegressionKey> for StoreReader {
    type Value = Timestamp;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[RegressionKey]) -> Result<HashMap<RegressionKey, Timestamp>, Self::Error> {
        let groups: Vec<ErrorGroupId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.error_regressions(&groups).await?;
        Ok(found.into_iter().map(|(group, at)| (RegressionKey(group), at)).collect())
    }
}

impl Loader<TagsKey> for StoreReader {
    type Value = Vec<Tag>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[TagsKey]) -> Result<HashMap<TagsKey, Vec<Tag>>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.cluster_tags(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, tags)| (TagsKey(cluster), tags)).collect())
    }
}

impl Loader<NotesKey> for StoreReader {
    type Value = cluster_note::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[NotesKey]) -> Result<HashMap<NotesKey, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.cluster_notes(&clusters).await?;
        Ok(found.into_iter().map(|row| (NotesKey(row.cluster_id), row)).collect())
    }
}

/// The loader key of a cluster's control row: its stop request, `keepAlive` and warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClusterControlKey(pub(crate) ClusterId);

/// The loader key of an account's idle policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdlePolicyKey(pub(crate) AccountId);

impl Loader<ClusterControlKey> for StoreReader {
    type Value = cluster_control::Model;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ClusterControlKey],
    ) -> Result<HashMap<ClusterControlKey, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.cluster_controls(&clusters).await?;
        Ok(found.into_iter().map(|row| (ClusterControlKey(row.cluster_id), row)).collect())
    }
}

impl Loader<IdlePolicyKey> for StoreReader {
    type Value = idle_policy::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[IdlePolicyKey]) -> Result<HashMap<IdlePolicyKey, Self::Value>, Self::Error> {
        let Some(row) = self.0.idle_policy().await? else { return Ok(HashMap::new()) };
        Ok(keys.iter().filter(|key| key.0 == row.account_id).map(|key| (*key, row.clone())).collect())
    }
}

impl Loader<DataPoliciesKey> for StoreReader {
    type Value = Vec<data_policy::Model>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[DataPoliciesKey],
    ) -> Result<HashMap<DataPoliciesKey, Vec<data_policy::Model>>, Self::Error> {
        let rows = self.0.data_policies().await?;
        Ok(keys.iter().filter(|key| key.0 == self.0.account_id()).map(|key| (*key, rows.clone())).collect())
    }
}

/// A list that each parent has, as the store reads it.
pub(crate) trait ParentList<Parent, Sort> {
    /// The row of an item.
    type Row;

    /// Reads the same page of each parent's list, in the order of `parents`.
    fn pages(
        &self,
        parents: &[Parent],
        sort: Sort,
        request: &PageRequest,
    ) -> impl Future<Output = Result<Vec<Page<Self::Row>>, StoreError>> + Send;

    /// Counts the items of each parent's list. Parents with an empty list may be missing.
    fn counts(
        &self,
        parents: &[Parent],
    ) -> impl Future<Output = Result<HashMap<Parent, i64>, StoreError>> + Send;
}

impl ParentList<ComputationParent, ComputationSort> for AccountStore {
    type Row = computation::Model;

    async fn pages(
        &self,
        parents: &[ComputationParent],
        sort: ComputationSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Self::Row>>, StoreError> {
        self.computation_pages(parents, sort, request).await
    }

    async fn counts(
        &self,
        parents: &[ComputationParent],
    ) -> Result<HashMap<ComputationParent, i64>, StoreError> {
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

impl ParentList<EventParent, EventSort> for AccountStore {
    type Row = event::Model;

    async fn pages(
        &self,
        parents: &[EventParent],
        sort: EventSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Self::Row>>, StoreError> {
        self.event_pages(parents, sort, request).await
    }

    async fn counts(&self, parents: &[EventParent]) -> Result<HashMap<EventParent, i64>, StoreError> {
        self.event_counts(parents).await
    }
}

impl ParentList<LogParent, LogSort> for AccountStore {
    type Row = log_line::Model;

    async fn pages(
        &self,
        parents: &[LogParent],
        sort: LogSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Self::Row>>, StoreError> {
        self.log_pages(parents, sort, request).await
    }

    async fn counts(&self, parents: &[LogParent]) -> Result<HashMap<LogParent, i64>, StoreError> {
        self.log_counts(parents).await
    }
}

impl<Parent, Sort> Loader<PageKey<Parent, Sort>> for StoreReader
where
    AccountStore: ParentList<Parent, Sort, Row: Clone + Send + Sync + 'static>,
    Parent: Clone + Eq + Hash + Send + Sync + 'static,
    Sort: Clone + Copy + Eq + Hash + Send + Sync + 'static,
{
    type Value = Page<<AccountStore as ParentList<Parent, Sort>>::Row>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[PageKey<Parent, Sort>],
    ) -> Result<HashMap<PageKey<Parent, Sort>, Self::Value>, Self::Error> {
        // One statement for all parents whose lists are requested with the same order and page.
        let mut parents_by_page: HashMap<(Sort, &PageRequest), Vec<Parent>> = HashMap::new();
        for key in keys {
            parents_by_page.entry((key.sort, &key.request)).or_default().push(key.parent.clone());
        }
        let mut found = HashMap::new();
        for ((sort, request), parents) in parents_by_page {
            let pages = self.0.pages(&parents, sort, request).await?;
            let keys = parents.into_iter().map(|parent| PageKey { parent, sort, request: request.clone() });
            found.extend(keys.zip(pages));
        }
        Ok(found)
    }
}

impl<Parent, Sort> Loader<CountKey<Parent, Sort>> for StoreReader
where
    AccountStore: ParentList<Parent, Sort>,
    Parent: Clone + Eq + Hash + Send + Sync + 'static,
    Sort: Clone + Copy + Eq + Hash + Send + Sync + 'static,
{
    type Value = i64;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[CountKey<Parent, Sort>],
    ) -> Result<HashMap<CountKey<Parent, Sort>, i64>, Self::Error> {
        let parents: Vec<Parent> = keys.iter().map(|key| key.0.clone()).collect();
        let found = self.0.counts(&parents).await?;
        Ok(keys.iter().map(|key| (key.clone(), found.get(&key.0).copied().unwrap_or(0))).collect())
    }
}
