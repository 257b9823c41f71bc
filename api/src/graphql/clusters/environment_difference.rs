//! The differences in the software and the size of clusters.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use async_graphql::{Object, SimpleObject, dataloader::Loader};
use entity::{
    cluster::Model,
    environment,
    ids::{ClusterId, EnvironmentId},
};

use crate::{
    domain::{
        comparison::{Change, Software, SoftwareChange},
        environment::Role,
    },
    graphql::engine::{loaders::StoreReader, scalar::BigInt},
    store::{AccountStore, StoreError, WorkerSize},
};

/// The maximum number of environments that are read for one comparison.
const MAX_ENVIRONMENTS: usize = 1_000;

/// The reported facts about the software and the size of clusters.
pub(crate) struct ClusterFacts {
    /// The environments of schedulers and workers. Clients are excluded, because their software does not
    /// affect the work of the cluster.
    environments: HashMap<ClusterId, Vec<environment::Model>>,
    /// The hashes of the code that called Dask.
    code: HashMap<ClusterId, BTreeSet<String>>,
    workers: BTreeMap<ClusterId, WorkerSize>,
}

impl ClusterFacts {
    pub(crate) async fn load(store: &AccountStore, clusters: &[&Model]) -> Result<Self, StoreError> {
        let ids: BTreeSet<ClusterId> = clusters.iter().map(|row| row.id).collect();
        let ids = Vec::from_iter(ids);
        let schedulers = clusters.iter().filter_map(|row| Some((row.id, row.environment_id?)));
        let mut keys: BTreeSet<(ClusterId, EnvironmentId)> = schedulers.collect();
        for (cluster, uses) in store.environment_uses(&ids).await? {
            let workers = uses.iter().filter(|environment_use| environment_use.role == Role::Worker);
            keys.extend(workers.map(|environment_use| (cluster, environment_use.environment)));
        }
        if keys.len() > MAX_ENVIRONMENTS {
            return Err(StoreError::TooLarge(
                "the compared clusters have more than 1000 environments: request fewer clusters",
            ));
        }
        let mut environments: HashMap<ClusterId, Vec<environment::Model>> = HashMap::new();
        for row in store.environments_by_id(&Vec::from_iter(keys)).await? {
            environments.entry(row.cluster_id).or_default().push(row);
        }
        let code = store.code_of_clusters(&ids).await?;
        let workers = store.worker_sizes(&ids).await?;
        Ok(Self { environments, code, workers })
    }

    /// Returns the differences between two sets of these clusters.
    pub(crate) fn difference_between(&self, base: &[Model], head: &[Model]) -> EnvironmentDifference {
        let (base_software, head_software) = (self.software(base), self.software(head));
        let (base_code, head_code) = (self.code(base), self.code(head));
        EnvironmentDifference {
            is_known: base_software != Software::default() && head_software != Software::default(),
            software: SoftwareChange::between(&base_software, &head_software),
            code_changed: (!base_code.is_empty() && !head_code.is_empty()).then(|| base_code != head_code),
            base: self.sizes(base),
            head: self.sizes(head),
        }
    }

    fn software(&self, clusters: &[Model]) -> Software {
        let mut software = Software::default();
        for row in clusters.iter().filter_map(|cluster| self.environments.get(&cluster.id)).flatten() {
            software.python.extend(row.python.clone());
            let os = [row.os.clone(), row.os_release.clone()];
            let os = os.into_iter().flatten().collect::<Vec<_>>().join(" ");
            software.os.extend(Some(os).filter(|os| !os.is_empty()));
            software.machine.extend(row.machine.clone());
            let installed =
                row.packages.0.iter().filter_map(|(name, version)| Some((name, version.as_ref()?)));
            for (name, version) in installed {
                software.packages.entry(name.clone()).or_default().insert(version.clone());
            }
        }
        software
    }

    fn code(&self, clusters: &[Model]) -> BTreeSet<&String> {
        clusters.iter().filter_map(|row| self.code.get(&row.id)).flatten().collect()
    }

    fn sizes(&self, clusters: &[Model]) -> ClusterSizes {
        let workers = clusters.iter().filter_map(|row| self.workers.get(&row.id));
        ClusterSizes {
            peak_workers: clusters.iter().map(|row| row.peak_workers).max().unwrap_or(0),
            peak_threads: clusters.iter().map(|row| row.peak_threads).max().unwrap_or(0),
            worker_threads: workers.clone().map(|size| size.threads).max(),
            worker_memory_limit: workers.filter_map(|size| size.memory_limit_bytes).max(),
        }
    }
}

/// The key of the differences between two clusters, the earlier one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnvironmentDifferenceKey(pub(crate) ClusterId, pub(crate) ClusterId);

impl Loader<EnvironmentDifferenceKey> for StoreReader {
    type Value = Arc<EnvironmentDifference>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[EnvironmentDifferenceKey],
    ) -> Result<HashMap<EnvironmentDifferenceKey, Self::Value>, Self::Error> {
        let ids: BTreeSet<ClusterId> = keys.iter().flat_map(|key| [key.0, key.1]).collect();
        let ids = Vec::from_iter(ids);
        let rows = self.0.clusters_by_id(&ids).await?;
        let facts = ClusterFacts::load(&self.0, &Vec::from_iter(&rows)).await?;
        let find_row = |id: ClusterId| rows.iter().find(|row| row.id == id).map(std::slice::from_ref);
        let found = keys.iter().filter_map(|key| {
            let difference = facts.difference_between(find_row(key.0)?, find_row(key.1)?);
            Some((*key, Arc::new(difference)))
        });
        Ok(found.collect())
    }
}

/// The differences in the software and the size of the clusters of two selections of work.
pub(crate) struct EnvironmentDifference {
    /// The changes of the software.
    pub(crate) software: SoftwareChange,
    /// True if the software of both is known.
    pub(crate) is_known: bool,
    /// True if the code that called Dask differs. `None` if it is unknown for either of them.
    pub(crate) code_changed: Option<bool>,
    pub(crate) base: ClusterSizes,
    pub(crate) head: ClusterSizes,
}

/// The differences in the software and the size of the clusters of two selections of work. They cover
/// the schedulers and all workers that the clusters ever had. Facts that one of the two did not report
/// are no differences.
#[Object]
impl EnvironmentDifference {
    /// True if the software of both selections is known.
    async fn known(&self) -> bool {
        self.is_known
    }

    /// The packages that only the second work has, ordered by name.
    async fn added(&self) -> Vec<ValueChange> {
        self.software.added.iter().map(Into::into).collect()
    }

    /// The packages that only the first work has, ordered by name.
    async fn removed(&self) -> Vec<ValueChange> {
        self.software.removed.iter().map(Into::into).collect()
    }

    /// The packages that both have in different versions, ordered by name.
    async fn changed(&self) -> Vec<ValueChange> {
        self.software.changed.iter().map(Into::into).collect()
    }

    /// The versions of Python. Null if they do not differ.
    async fn python(&self) -> Option<ValueChange> {
        self.software.python.as_ref().map(Into::into)
    }

    /// The operating systems with their releases. Null if they do not differ.
    async fn os(&self) -> Option<ValueChange> {
        self.software.os.as_ref().map(Into::into)
    }

    /// The architectures of the machines. Null if they do not differ.
    async fn machine(&self) -> Option<ValueChange> {
        self.software.machine.as_ref().map(Into::into)
    }

    /// True if the code that called Dask differs, by the hashes of its snippets. Null if either of the
    /// two reported no code.
    async fn code_changed(&self) -> Option<bool> {
        self.code_changed
    }

    /// The maximum size of the clusters of the first work.
    async fn base_size(&self) -> ClusterSizes {
        self.base
    }

    /// The maximum size of the clusters of the second work.
    async fn head_size(&self) -> ClusterSizes {
        self.head
    }
}

/// An item whose versions differ between two selections of work.
#[derive(SimpleObject)]
struct ValueChange {
    /// The name of the item.
    name: String,
    /// The versions of the first work, several if its processes differ. Empty if it has none.
    from: Vec<String>,
    /// The versions of the second work, several if its processes differ. Empty if it has none.
    to: Vec<String>,
}

impl From<&Change> for ValueChange {
    fn from(change: &Change) -> Self {
        let Change { name, from, to } = change.clone();
        Self { name, from, to }
    }
}

/// The maximum size of several clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterSizes {
    pub(crate) peak_workers: i64,
    pub(crate) peak_threads: i64,
    pub(crate) worker_threads: Option<i64>,
    pub(crate) worker_memory_limit: Option<i64>,
}

/// The maximum size of several clusters, with the maximum of each field.
#[Object]
impl ClusterSizes {
    /// The number of workers of a cluster at one time.
    async fn peak_workers(&self) -> BigInt {
        BigInt(self.peak_workers)
    }

    /// The number of threads of a cluster at one time.
    async fn peak_threads(&self) -> BigInt {
        BigInt(self.peak_threads)
    }

    /// The number of threads of a worker. Null if no workers are known.
    async fn worker_threads(&self) -> Option<BigInt> {
        self.worker_threads.map(BigInt)
    }

    /// The memory limit of a worker, in bytes. Null if no worker has a limit, or no workers are known.
    async fn worker_memory_limit(&self) -> Option<BigInt> {
        self.worker_memory_limit.map(BigInt)
    }
}
