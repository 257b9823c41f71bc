//! How the software and the size of clusters differ.

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

use super::{loaders::Reader, scalar::BigInt};
use crate::{
    domain::{
        comparison::{Change, Software, SoftwareChange},
        environment::Role,
    },
    store::{AccountStore, StoreError, WorkerSize},
};

/// Environments that are read for one comparison at the most.
const MAX_ENVIRONMENTS: usize = 1_000;

/// What is known of the software and the size of clusters.
pub(super) struct ClusterFacts {
    /// Of schedulers and workers; what clients run on decides nothing there.
    environments: HashMap<ClusterId, Vec<environment::Model>>,
    code: HashMap<ClusterId, BTreeSet<String>>,
    workers: BTreeMap<ClusterId, WorkerSize>,
}

impl ClusterFacts {
    pub(super) async fn read(store: &AccountStore, clusters: &[&Model]) -> Result<Self, StoreError> {
        let ids: BTreeSet<ClusterId> = clusters.iter().map(|row| row.id).collect();
        let ids = Vec::from_iter(ids);
        let schedulers = clusters.iter().filter_map(|row| Some((row.id, row.environment_id?)));
        let mut keys: BTreeSet<(ClusterId, EnvironmentId)> = schedulers.collect();
        for (cluster, uses) in store.environment_uses(&ids).await? {
            let workers = uses.iter().filter(|used| used.role == Role::Worker);
            keys.extend(workers.map(|used| (cluster, used.environment)));
        }
        if keys.len() > MAX_ENVIRONMENTS {
            return Err(StoreError::TooMuch(
                "the clusters that are compared have more than 1000 environments: ask for fewer clusters",
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

    /// How some of these clusters differ from others.
    pub(super) fn between(&self, base: &[Model], head: &[Model]) -> EnvironmentDifference {
        let (of_base, of_head) = (self.software(base), self.software(head));
        let (base_code, head_code) = (self.code(base), self.code(head));
        EnvironmentDifference {
            told: of_base != Software::default() && of_head != Software::default(),
            software: SoftwareChange::between(&of_base, &of_head),
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

/// The key of how a cluster differs from another, which comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ChangesSince(pub(super) ClusterId, pub(super) ClusterId);

impl Loader<ChangesSince> for Reader {
    type Value = Arc<EnvironmentDifference>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ChangesSince]) -> Result<HashMap<ChangesSince, Self::Value>, Self::Error> {
        let ids: BTreeSet<ClusterId> = keys.iter().flat_map(|key| [key.0, key.1]).collect();
        let ids = Vec::from_iter(ids);
        let rows = self.0.clusters_by_id(&ids).await?;
        let facts = ClusterFacts::read(&self.0, &Vec::from_iter(&rows)).await?;
        let of = |id: ClusterId| rows.iter().find(|row| row.id == id).map(std::slice::from_ref);
        let found = keys.iter().filter_map(|key| {
            let difference = facts.between(of(key.0)?, of(key.1)?);
            Some((*key, Arc::new(difference)))
        });
        Ok(found.collect())
    }
}

/// How the software and the size of the clusters of two pieces of work differ.
pub(super) struct EnvironmentDifference {
    /// What changed, and whether both tell of their software.
    pub(super) software: SoftwareChange,
    pub(super) told: bool,
    /// Whether other code called Dask; none when either does not tell.
    pub(super) code_changed: Option<bool>,
    pub(super) base: ClusterSizes,
    pub(super) head: ClusterSizes,
}

/// How the software and the size of the clusters of two pieces of work differ. Schedulers and all workers they ever had
/// count. What one of the two does not tell of is no difference.
#[Object]
impl EnvironmentDifference {
    /// Whether both tell of their software at all.
    async fn known(&self) -> bool {
        self.told
    }

    /// Packages that only the second work has, by name.
    async fn added(&self) -> Vec<ValueChange> {
        self.software.added.iter().map(Into::into).collect()
    }

    /// Packages that only the first work has, by name.
    async fn removed(&self) -> Vec<ValueChange> {
        self.software.removed.iter().map(Into::into).collect()
    }

    /// Packages that both have, and not in the same versions, by name.
    async fn changed(&self) -> Vec<ValueChange> {
        self.software.changed.iter().map(Into::into).collect()
    }

    /// Python, if its version differs.
    async fn python(&self) -> Option<ValueChange> {
        self.software.python.as_ref().map(Into::into)
    }

    /// The operating system with its release, if that differs.
    async fn os(&self) -> Option<ValueChange> {
        self.software.os.as_ref().map(Into::into)
    }

    /// The machines' architecture, if it differs.
    async fn machine(&self) -> Option<ValueChange> {
        self.software.machine.as_ref().map(Into::into)
    }

    /// Whether other code called Dask, by the hashes of its snippets; null when either does not tell of any.
    async fn code_changed(&self) -> Option<bool> {
        self.code_changed
    }

    /// How large the clusters of the first work were.
    async fn base_size(&self) -> ClusterSizes {
        self.base
    }

    /// How large the clusters of the second work were.
    async fn head_size(&self) -> ClusterSizes {
        self.head
    }
}

/// A thing that two pieces of work do not have in the same versions.
#[derive(SimpleObject)]
struct ValueChange {
    /// Its name.
    name: String,
    /// The versions of the first work, several when its processes do not have the same; empty when it has none.
    from: Vec<String>,
    /// The versions of the second work.
    to: Vec<String>,
}

impl From<&Change> for ValueChange {
    fn from(change: &Change) -> Self {
        let Change { name, from, to } = change.clone();
        Self { name, from, to }
    }
}

/// How large some clusters were at the most.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterSizes {
    pub(super) peak_workers: i64,
    pub(super) peak_threads: i64,
    pub(super) worker_threads: Option<i64>,
    pub(super) worker_memory_limit: Option<i64>,
}

/// How large some clusters were, each at the most.
#[Object]
impl ClusterSizes {
    /// Workers of a cluster at one time.
    async fn peak_workers(&self) -> BigInt {
        BigInt(self.peak_workers)
    }

    /// Threads of a cluster at one time.
    async fn peak_threads(&self) -> BigInt {
        BigInt(self.peak_threads)
    }

    /// Threads of a worker; null when nothing is known of workers.
    async fn worker_threads(&self) -> Option<BigInt> {
        self.worker_threads.map(BigInt)
    }

    /// Memory limit of a worker, in bytes; null when none had one, or nothing is known of workers.
    async fn worker_memory_limit(&self) -> Option<BigInt> {
        self.worker_memory_limit.map(BigInt)
    }
}
