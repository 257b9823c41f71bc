//! Differences in software between the processes of a cluster.

use std::collections::{BTreeMap, BTreeSet};

/// The role of a process in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It schedules tasks.
    Scheduler,
    /// It computes tasks.
    Worker,
    /// It submits tasks.
    Client,
}

/// A group of processes with the same role and the same software.
#[derive(Clone, Copy, Debug)]
pub struct ProcessGroup<'a> {
    /// The role.
    pub role: Role,
    /// The number of processes.
    pub processes: i64,
    /// The version of Python, if it is known.
    pub python: Option<&'a str>,
    /// The versions of the reported packages. `None` for a package that is not installed.
    pub packages: &'a BTreeMap<String, Option<String>>,
}

/// A package with different versions among the processes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The name of the package.
    pub name: String,
    /// The number of processes by role and version.
    pub versions: BTreeMap<(Role, Option<String>), i64>,
}

/// The name of Python itself among the packages.
const PYTHON: &str = "python";

/// Returns the packages with different versions, by name. A process that does not report a package has no
/// mismatch in it.
#[must_use]
pub fn mismatches(processes: &[ProcessGroup<'_>]) -> Vec<Mismatch> {
    let mut versions_by_package: BTreeMap<&str, BTreeMap<(Role, Option<String>), i64>> = BTreeMap::new();
    for group in processes {
        let packages = group.packages.iter().map(|(name, version)| (name.as_str(), version.as_deref()));
        let packages = packages.filter(|(name, _)| *name != PYTHON);
        for (name, version) in packages.chain(group.python.map(|version| (PYTHON, Some(version)))) {
            let versions = versions_by_package.entry(name).or_default();
            *versions.entry((group.role, version.map(str::to_owned))).or_default() += group.processes;
        }
    }
    versions_by_package
        .into_iter()
        .filter(|(_, versions)| {
            versions.keys().map(|(_, version)| version).collect::<BTreeSet<_>>().len() > 1
        })
        .map(|(name, versions)| Mismatch { name: name.to_owned(), versions })
        .collect()
}
