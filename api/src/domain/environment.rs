//! Software that differs between the processes of a cluster.

use std::collections::{BTreeMap, BTreeSet};

/// What a process is to its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It schedules.
    Scheduler,
    /// It computes.
    Worker,
    /// It submits.
    Client,
}

/// Processes of one role that run on the same software.
#[derive(Clone, Copy, Debug)]
pub struct Alike<'a> {
    /// Their role.
    pub role: Role,
    /// How many they are.
    pub processes: i64,
    /// Version of Python, if it is known.
    pub python: Option<&'a str>,
    /// Versions of the packages that were looked for; none for one that is not installed.
    pub packages: &'a BTreeMap<String, Option<String>>,
}

/// A package whose version is not the same everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Its name.
    pub name: String,
    /// How many processes of which role have which version.
    pub versions: BTreeMap<(Role, Option<String>), i64>,
}

/// What Python itself is called among the packages.
const PYTHON: &str = "python";

/// The packages whose version is not the same everywhere, in the order of their names. A process that does not
/// tell of a package agrees with everybody.
#[must_use]
pub fn mismatches(processes: &[Alike<'_>]) -> Vec<Mismatch> {
    let mut told: BTreeMap<&str, BTreeMap<(Role, Option<String>), i64>> = BTreeMap::new();
    for alike in processes {
        let packages = alike.packages.iter().map(|(name, version)| (name.as_str(), version.as_deref()));
        let packages = packages.filter(|(name, _)| *name != PYTHON);
        for (name, version) in packages.chain(alike.python.map(|version| (PYTHON, Some(version)))) {
            let versions = told.entry(name).or_default();
            *versions.entry((alike.role, version.map(str::to_owned))).or_default() += alike.processes;
        }
    }
    told.into_iter()
        .filter(|(_, versions)| {
            versions.keys().map(|(_, version)| version).collect::<BTreeSet<_>>().len() > 1
        })
        .map(|(name, versions)| Mismatch { name: name.to_owned(), versions })
        .collect()
}
