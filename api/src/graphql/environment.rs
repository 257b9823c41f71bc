//! Environments: the software processes run on, and where it differs within a cluster.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{Enum, Object, SimpleObject, dataloader::Loader};
use entity::{
    environment::Model,
    ids::{ClusterId, EnvironmentId},
};

use super::{error::ApiError, loaders::Reader, scalar::BigInt, scope::AccountScope};
use crate::{
    domain::environment::{Alike, Mismatch, Role, mismatches as differing},
    store::{EnvironmentUse, StoreError},
};

/// The software a process runs on.
pub(super) struct Environment(Model);

impl Environment {
    /// What the process refers to, if it does and that was reported.
    pub(super) async fn find(
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

/// The software a process runs on.
#[Object]
impl Environment {
    /// Version of Python; null when that is not known.
    async fn python(&self) -> Option<&str> {
        self.0.python.as_deref()
    }

    /// Path of the Python executable; null when that is not known.
    async fn executable(&self) -> Option<&str> {
        self.0.executable.as_deref()
    }

    /// Name of the operating system, such as `Linux`; null when that is not known.
    async fn os(&self) -> Option<&str> {
        self.0.os.as_deref()
    }

    /// Its release; null when that is not known.
    async fn os_release(&self) -> Option<&str> {
        self.0.os_release.as_deref()
    }

    /// The machine's architecture, such as `x86_64`; null when that is not known.
    async fn machine(&self) -> Option<&str> {
        self.0.machine.as_deref()
    }

    /// The packages that were looked for, by name.
    async fn packages(&self) -> Vec<Package<'_>> {
        let packages = self.0.packages.0.iter();
        packages.map(|(name, version)| Package { name, version: version.as_deref() }).collect()
    }
}

/// A package of an environment.
#[derive(SimpleObject)]
pub(super) struct Package<'a> {
    /// Its name.
    name: &'a str,
    /// Its version; null when it is not installed.
    version: Option<&'a str>,
}

/// A package whose version is not the same on all processes of a cluster.
#[derive(SimpleObject)]
pub(super) struct PackageMismatch {
    /// Its name; `python` for Python itself.
    name: String,
    /// Which processes have which version: the scheduler first, then workers, then clients.
    versions: Vec<PackageVersion>,
}

/// The version of a package on some processes of a cluster.
#[derive(SimpleObject)]
pub(super) struct PackageVersion {
    /// What the processes are to the cluster.
    role: ProcessRole,
    /// The version; null when it is not installed there.
    version: Option<String>,
    /// How many processes of that role ever had it.
    processes: BigInt,
}

/// What a process is to its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Role")]
pub(super) enum ProcessRole {
    /// It schedules.
    Scheduler,
    /// It computes.
    Worker,
    /// It submits work.
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

/// The packages whose versions differ between the processes of a cluster.
pub(super) async fn mismatches(
    scope: &AccountScope,
    cluster: ClusterId,
    scheduler: Option<EnvironmentId>,
) -> Result<Vec<PackageMismatch>, ApiError> {
    let scheduler =
        scheduler.map(|environment| EnvironmentUse { role: Role::Scheduler, environment, processes: 1 });
    let others = scope.loader.load_one(UsesOf(cluster)).await?.unwrap_or_default();
    let uses: Vec<EnvironmentUse> = scheduler.into_iter().chain(others).collect();
    let keys = uses.iter().map(|used| (cluster, used.environment));
    let environments = scope.loader.load_many(keys).await?;
    let alike = uses.iter().filter_map(|used| {
        let environment = environments.get(&(cluster, used.environment))?;
        Some(Alike {
            role: used.role,
            processes: used.processes,
            python: environment.python.as_deref(),
            packages: &environment.packages.0,
        })
    });
    Ok(differing(&alike.collect::<Vec<_>>()).into_iter().map(Into::into).collect())
}

/// The key of what the workers and clients of a cluster run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct UsesOf(ClusterId);

impl Loader<UsesOf> for Reader {
    type Value = Vec<EnvironmentUse>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[UsesOf]) -> Result<HashMap<UsesOf, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let uses = self.0.environment_uses(&clusters).await?;
        Ok(uses.into_iter().map(|(cluster, uses)| (UsesOf(cluster), uses)).collect())
    }
}

impl Loader<(ClusterId, EnvironmentId)> for Reader {
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
