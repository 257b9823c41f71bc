//! Rule: processes have different versions of a package.

use std::collections::{BTreeMap, BTreeSet};

use super::{ClusterFlagKind, Finding, Rule, Verdict};

/// Packages whose versions must be equal on both ends of a connection. Dask compares the same ones.
const COMPARED: [&str; 9] =
    ["cloudpickle", "dask", "distributed", "lz4", "msgpack", "numpy", "pandas", "toolz", "tornado"];

/// The name of Python itself among the packages.
const PYTHON: &str = "python";

pub(super) const RULE: Rule = Rule {
    kind: ClusterFlagKind::VersionMismatch,
    title: "Version mismatch",
    text: "The scheduler, the workers and the clients that are there do not all have the same version of Python, Dask, or \
           what they talk and compute with. Tasks and results may not be understood on the other side.",
    needs: "nothing",
    threshold: 1.0,
    clear_threshold: 1.0,
    unit: "packages",
    lasting_seconds: 0,
    sentence: |_, name| {
        format!("Not all processes have the same version of {}.", name.unwrap_or("all packages"))
    },
    verdict: |_, facts, _| {
        if facts.mismatches.is_empty() {
            return Verdict::Over(facts.at);
        }
        #[expect(clippy::cast_precision_loss, reason = "there are at most ten names")]
        let value = facts.mismatches.len() as f64;
        let name = Some(facts.mismatches.join(", "));
        Verdict::Holds(Finding { since: facts.at, value, name, ..Finding::default() })
    },
};

/// The software of a process.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// The version of Python, if it is known.
    pub python: Option<&'a str>,
    /// The versions of packages.
    pub packages: &'a BTreeMap<String, Option<String>>,
}

/// Returns the names of packages with different versions. A process without a package has no mismatch in it.
#[must_use]
pub fn mismatched_packages<'a>(processes: impl IntoIterator<Item = Process<'a>>) -> Vec<String> {
    let mut versions = BTreeMap::<&str, BTreeSet<&str>>::new();
    for process in processes {
        let installed = |name: &&'static str| Some((*name, process.packages.get(*name)?.as_deref()?));
        let packages = COMPARED.iter().filter_map(installed);
        for (name, version) in packages.chain(process.python.map(|version| (PYTHON, version))) {
            versions.entry(name).or_default().insert(version);
        }
    }
    versions.into_iter().filter(|(_, versions)| versions.len() > 1).map(|(name, _)| name.to_owned()).collect()
}
