//! Rows and pages that several fields of one request ask for, read in one statement each.

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

use super::usage::MAX_HOURS;
use crate::{
    domain::{tag::Tag, usage::Usage},
    store::{
        AccountStore, ComputationSort, ComputationTotals, ErrorGroupCounts, ErrorParent, ErrorSort,
        EventParent, EventSort, LogParent, LogSort, StoreError, TaskGroupParent, TaskGroupSort,
        page::{Page, PageRequest},
    },
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

/// The key of what a cluster used, by day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClusterUsage(pub(super) ClusterId);

impl Loader<ClusterUsage> for Reader {
    type Value = BTreeMap<i64, Usage>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ClusterUsage]) -> Result<HashMap<ClusterUsage, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.usage_by_cluster_and_day(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, days)| (ClusterUsage(cluster), days)).collect())
    }
}

/// The key of what a cluster used in a range of hours. There is nothing for it when there are too many hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClusterHours {
    pub(super) cluster: ClusterId,
    pub(super) range: (i64, i64),
}

impl Loader<ClusterHours> for Reader {
    type Value = Vec<(i64, Usage)>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ClusterHours]) -> Result<HashMap<ClusterHours, Self::Value>, Self::Error> {
        let mut alike: HashMap<(i64, i64), Vec<ClusterId>> = HashMap::new();
        for key in keys {
            alike.entry(key.range).or_default().push(key.cluster);
        }
        let mut found = HashMap::new();
        for (range, clusters) in alike {
            let hours = self.0.usage_hours(&clusters, range, MAX_HOURS + 1).await?;
            if hours.len() as u64 > MAX_HOURS {
                continue;
            }
            let keys = clusters.into_iter().map(|cluster| (ClusterHours { cluster, range }, Vec::new()));
            found.extend(keys);
            for (cluster, hour, usage) in hours {
                found.entry(ClusterHours { cluster, range }).or_default().push((hour, usage));
            }
        }
        Ok(found)
    }
}

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

/// The key of what the task groups of a computation come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ComputationTotalsOf(pub(super) (ClusterId, ComputationId));

impl Loader<ComputationTotalsOf> for Reader {
    type Value = ComputationTotals;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ComputationTotalsOf],
    ) -> Result<HashMap<ComputationTotalsOf, ComputationTotals>, Self::Error> {
        let computations: Vec<_> = keys.iter().map(|key| key.0).collect();
        let found = self.0.computation_totals(&computations).await?;
        Ok(found
            .into_iter()
            .map(|(computation, totals)| (ComputationTotalsOf(computation), totals))
            .collect())
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

/// The key of how much there is of a group of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CountsOf(pub(super) ErrorGroupId);

/// The key of when a group of errors happened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RegressionOf(pub(super) ErrorGroupId);

/// The key of the tags of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TagsOf(pub(super) ClusterId);

/// The key of what people wrote about a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NotesOf(pub(super) ClusterId);

/// The key of what an account wants of each class of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PolicyOf(pub(super) AccountId);

impl Loader<ErrorGroupId> for Reader {
    type Value = error_group::Model;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ErrorGroupId],
    ) -> Result<HashMap<ErrorGroupId, error_group::Model>, Self::Error> {
        Ok(self.0.error_groups_by_id(keys).await?.into_iter().map(|row| (row.id, row)).collect())
    }
}

impl Loader<CountsOf> for Reader {
    type Value = ErrorGroupCounts;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[CountsOf]) -> Result<HashMap<CountsOf, ErrorGroupCounts>, Self::Error> {
        let groups: Vec<ErrorGroupId> = keys.iter().map(|key| key.0).collect();
        let counts = self.0.error_group_counts(&groups).await?;
        Ok(counts.into_iter().map(|(group, counts)| (CountsOf(group), counts)).collect())
    }
}

impl Loader<RegressionOf> for Reader {
    type Value = Timestamp;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[RegressionOf]) -> Result<HashMap<RegressionOf, Timestamp>, Self::Error> {
        let groups: Vec<ErrorGroupId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.error_regressions(&groups).await?;
        Ok(found.into_iter().map(|(group, at)| (RegressionOf(group), at)).collect())
    }
}

impl Loader<TagsOf> for Reader {
    type Value = Vec<Tag>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[TagsOf]) -> Result<HashMap<TagsOf, Vec<Tag>>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.cluster_tags(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, tags)| (TagsOf(cluster), tags)).collect())
    }
}

impl Loader<NotesOf> for Reader {
    type Value = cluster_note::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[NotesOf]) -> Result<HashMap<NotesOf, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.cluster_notes(&clusters).await?;
        Ok(found.into_iter().map(|row| (NotesOf(row.cluster_id), row)).collect())
    }
}

/// The key of what was said of whether a cluster is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ControlOf(pub(super) ClusterId);

/// The key of what an account wants of idle clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct IdlePolicyOf(pub(super) AccountId);

impl Loader<ControlOf> for Reader {
    type Value = cluster_control::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ControlOf]) -> Result<HashMap<ControlOf, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.cluster_controls(&clusters).await?;
        Ok(found.into_iter().map(|row| (ControlOf(row.cluster_id), row)).collect())
    }
}

impl Loader<IdlePolicyOf> for Reader {
    type Value = idle_policy::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[IdlePolicyOf]) -> Result<HashMap<IdlePolicyOf, Self::Value>, Self::Error> {
        let Some(row) = self.0.idle_policy().await? else { return Ok(HashMap::new()) };
        Ok(keys.iter().filter(|key| key.0 == row.account_id).map(|key| (*key, row.clone())).collect())
    }
}

impl Loader<PolicyOf> for Reader {
    type Value = Vec<data_policy::Model>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[PolicyOf],
    ) -> Result<HashMap<PolicyOf, Vec<data_policy::Model>>, Self::Error> {
        let rows = self.0.data_policies().await?;
        Ok(keys.iter().filter(|key| key.0 == self.0.account_id()).map(|key| (*key, rows.clone())).collect())
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

impl<Parent, Sort> Loader<PageOf<Parent, Sort>> for Reader
where
    AccountStore: ParentList<Parent, Sort, Row: Clone + Send + Sync + 'static>,
    Parent: Clone + Eq + Hash + Send + Sync + 'static,
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
            alike.entry((key.sort, &key.request)).or_default().push(key.parent.clone());
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
    Parent: Clone + Eq + Hash + Send + Sync + 'static,
    Sort: Clone + Copy + Eq + Hash + Send + Sync + 'static,
{
    type Value = i64;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[CountOf<Parent, Sort>],
    ) -> Result<HashMap<CountOf<Parent, Sort>, i64>, Self::Error> {
        let parents: Vec<Parent> = keys.iter().map(|key| key.0.clone()).collect();
        let found = self.0.counts(&parents).await?;
        Ok(keys.iter().map(|key| (key.clone(), found.get(&key.0).copied().unwrap_or(0))).collect())
    }
}
