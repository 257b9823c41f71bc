//! The GraphQL types of environments: the software of processes, and its differences within a cluster.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{Enum, Object, SimpleObject, dataloader::Loader};
use entity::{
    environment::Model,
    ids::{ClusterId, EnvironmentId},
};

use crate::{
    domain::environment::{Mismatch, ProcessGroup, Role, mismatches as find_mismatches},
    graphql::engine::{error::ApiError, loaders::StoreReader, scalar::BigInt, scope::AccountScope},
    store::{EnvironmentUse, StoreError},
};

/// The software that a process runs on.
pub(crate) struct Environment(Model);

impl Environment {
    /// Returns the environment of a process. `None` if the process names none, or it was not reported.
    pub(crate) async fn find(
        scope: &AccountScope,
        cluster: ClusterId,
        id: Option<EnvironmentId>,
    ) -> Result<Option<Self>, ApiError> {
        match id {
            Some(id) => Ok(scope.loader.load_one((cluster, id)).await?.map(Self)),
            None => Ok(None),
        }
    }
}

/// The software that a process runs on.
#[Object]
impl Environment {
    /// The version of Python. Null if it is unknown.
    async fn python(&self) -> Option<&str> {
        self.0.python.as_deref()
    }

    /// The path of the Python executable. Null if it is unknown.
    async fn executable(&self) -> Option<&str> {
        self.0.executable.as_deref()
    }

    /// The name of the operating system, such as `Linux`. Null if it is unknown.
    async fn os(&self) -> Option<&str> {
        self.0.os.as_deref()
    }

    /// The release of the operating system. Null if it is unknown.
    async fn os_release(&self) -> Option<&str> {
        self.0.os_release.as_deref()
    }

    /// The architecture of the machine, such as `x86_64`. Null if it is unknown.
    async fn machine(&self) -> Option<&str> {
        self.0.machine.as_deref()
    }

    /// The packages that were looked up, ordered by name.
    async fn packages(&self) -> Vec<Package<'_>> {
        let packages = self.0.packages.0.iter();
        packages.map(|(name, version)| Package { name, version: version.as_deref() }).collect()
    }
}

/// A package that was looked up in an environment.
#[derive(SimpleObject)]
pub(crate) struct Package<'a> {
    /// The name of the package.
    name: &'a str,
    /// The version of the package. Null if it is not installed.
    version: Option<&'a str>,
}

/// A package that does not have the same version on all processes of a cluster.
#[derive(SimpleObject)]
pub(crate) struct PackageMismatch {
    /// The name of the package; `python` for Python itself.
    name: String,
    /// The versions by process: those of the scheduler first, then of the workers, then of the clients.
    versions: Vec<PackageVersion>,
}

/// The version of a package on some processes of a cluster.
#[derive(SimpleObject)]
pub(crate) struct PackageVersion {
    /// The role of the processes in the cluster.
    role: ProcessRole,
    /// The version. Null if the package is not installed.
    version: Option<String>,
    /// The number of processes of this role that ever had the version.
    processes: BigInt,
}

/// A role of a process in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Role")]
pub(crate) enum ProcessRole {
    /// The scheduler.
    Scheduler,
    /// A worker.
    Worker,
    /// A client, which submits work.
    Client,
}

impl From<Mismatch> for PackageMismatch {
    fn from(mismatch: Mismatch) -> Self {
        let versions = mismatch.versions.into_iter();
        let versions = versions.map(|((role, version), processes)| PackageVersion {
            role: role.into(),
            version,
            processes: BigInt(processes),
        });
        Self { name: mismatch.name, versions: versions.collect() }
    }
}

/// Returns the packages whose versions differ between the processes of a cluster.
pub(crate) async fn load_mismatches(
    scope: &AccountScope,
    cluster: ClusterId,
    scheduler: Option<EnvironmentId>,
) -> Result<Vec<PackageMismatch>, ApiError> {
    let scheduler =
        scheduler.map(|environment| EnvironmentUse { role: Role::Scheduler, environment, processes: 1 });
    let others = scope.loader.load_one(EnvironmentUsesKey(cluster)).await?.unwrap_or_default();
    let uses: Vec<EnvironmentUse> = scheduler.into_iter().chain(others).collect();
    let keys = uses.iter().map(|environment_use| (cluster, environment_use.environment));
    let environments = scope.loader.load_many(keys).await?;
    let process_groups = uses.iter().filter_map(|environment_use| {
        let environment = environments.get(&(cluster, environment_use.environment))?;
        Some(ProcessGroup {
            role: environment_use.role,
            processes: environment_use.processes,
            python: environment.python.as_deref(),
            packages: &environment.packages.0,
        })
    });
    Ok(find_mismatches(&process_groups.collect::<Vec<_>>()).into_iter().map(Into::into).collect())
}

/// The key of the environments of a cluster's workers and clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnvironmentUsesKey(ClusterId);

impl Loader<EnvironmentUsesKey> for StoreReader {
    type Value = Vec<EnvironmentUse>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[EnvironmentUsesKey],
    ) -> Result<HashMap<EnvironmentUsesKey, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let uses = self.0.environment_uses(&clusters).await?;
        Ok(uses.into_iter().map(|(cluster, uses)| (EnvironmentUsesKey(cluster), uses)).collect())
    }
}

impl Loader<(ClusterId, EnvironmentId)> for StoreReader {
    type Value = Model;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[(ClusterId, EnvironmentId)],
    ) -> Result<HashMap<(ClusterId, EnvironmentId), Model>, Self::Error> {
        let rows = self.0.environments_by_id(keys).await?;
        Ok(rows.into_iter().map(|row| ((row.cluster_id, row.id), row)).collect())
    }
}
