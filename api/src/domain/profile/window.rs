//! Windows of statistical profiles: their checks, their packed form, and their parts by function and worker.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
};

use entity::ids::WorkerId;
use serde::Deserialize;

use super::{Frame, Merge, Node, Profile};
use crate::domain::{
    report::{ProfileNode, ProfileReport},
    validated::{Count, List, LocatedError},
};

/// The value of a report for the parent index of a root.
const ROOT: i64 = -1;

/// The error for a packed profile that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packed profile cannot be read")]
pub struct Damaged;

/// Checks that `nodes` is a tree over `frames`, which the types of a report cannot express.
///
/// # Errors
/// Returns the location of the first wrong index, relative to the profile.
pub fn check(report: &ProfileReport) -> Result<(), LocatedError> {
    for (index, ProfileNode(parent, frame, ..)) in report.nodes.iter().enumerate() {
        if *parent != ROOT && !usize::try_from(*parent).is_ok_and(|parent| parent < index) {
            return Err(LocatedError {
                pointer: format!("/nodes/{index}/0"),
                message: "neither -1 nor the index of a node before this one".to_owned(),
            });
        }
        if !usize::try_from(frame.get()).is_ok_and(|frame| frame < report.frames.len()) {
            return Err(LocatedError {
                pointer: format!("/nodes/{index}/1"),
                message: "not the index of a frame".to_owned(),
            });
        }
    }
    let functions = report.functions.iter().map(|function| &function.roots);
    let workers = report.by_worker.iter().map(|worker| &worker.roots);
    check_parts(report, "functions", functions)?;
    check_parts(report, "by_worker", workers)
}

/// Checks that parts consist of outermost nodes, each of which belongs to one part.
fn check_parts<'a>(
    report: &ProfileReport,
    name: &str,
    parts: impl Iterator<Item = &'a List<Count, 1_000>>,
) -> Result<(), LocatedError> {
    let mut roots = HashSet::new();
    for (number, part) in parts.enumerate() {
        for (index, root) in part.iter().enumerate() {
            let node = usize::try_from(root.get()).ok().and_then(|root| report.nodes.get(root));
            if node.is_none_or(|node| node.0 != ROOT) || !roots.insert(root.get()) {
                return Err(LocatedError {
                    pointer: format!("/{name}/{number}/roots/{index}"),
                    message: "not the index of an outermost node that belongs to no other part".to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// A window of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The samples of all functions.
    pub profile: Profile,
    /// The functions with the indices of their outermost nodes. Empty if they are unknown.
    functions: Vec<(String, Vec<usize>)>,
    /// The workers with the indices of their outermost nodes. Empty if they are unknown.
    workers: Vec<(WorkerId, Vec<usize>)>,
}

/// The parts of a profile that are selected: the samples in tasks of some functions, on some workers.
/// `None` for all.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The functions.
    pub functions: Option<BTreeSet<String>>,
    /// The workers.
    pub workers: Option<BTreeSet<WorkerId>>,
}

impl Selection {
    /// Returns true if all samples are selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.functions.is_none() && self.workers.is_none()
    }
}

/// The packed form of a window.
#[derive(Deserialize)]
struct Packed(
    Vec<Frame>,
    Vec<(i64, usize, i64, i64)>,
    /// Absent if neither functions nor workers are known, so that earlier releases of the server can read it.
    #[serde(default)]
    Vec<(String, Vec<usize>)>,
    /// Absent if no workers are known.
    #[serde(default)]
    Vec<(WorkerId, Vec<usize>)>,
);

/// Packs the frames, nodes, functions and workers of a report.
#[must_use]
pub(crate) fn pack(report: &ProfileReport) -> Vec<u8> {
    let (frames, nodes) = (&*report.frames, &*report.nodes);
    let indices = |roots: &List<Count, 1_000>| roots.iter().map(|root| root.get()).collect::<Vec<i64>>();
    let functions = report.functions.iter().map(|part| (part.prefix.as_str(), indices(&part.roots)));
    let functions: Vec<(&str, Vec<i64>)> = functions.collect();
    let workers: Vec<(WorkerId, Vec<i64>)> =
        report.by_worker.iter().map(|part| (part.worker, indices(&part.roots))).collect();
    let packed = match (functions.is_empty(), workers.is_empty()) {
        (true, true) => serde_json::to_vec(&(frames, nodes)),
        (false, true) => serde_json::to_vec(&(frames, nodes, functions)),
        (_, false) => serde_json::to_vec(&(frames, nodes, functions, workers)),
    };
    packed.expect("texts and numbers are always JSON")
}

impl Window {
    /// Reads a window that `pack` packed.
    ///
    /// # Errors
    /// Returns [`Damaged`] for all other input.
    pub fn unpack(packed: &[u8]) -> Result<Self, Damaged> {
        let Packed(frames, nodes, functions, workers) =
            serde_json::from_slice(packed).map_err(|_| Damaged)?;
        let nodes = nodes.into_iter().enumerate().map(|(index, (parent, frame, own, total))| {
            let parent =
                if parent == ROOT { None } else { Some(usize::try_from(parent).map_err(|_| Damaged)?) };
            let is_valid = frame < frames.len() && parent.is_none_or(|parent| parent < index);
            is_valid.then_some(Node { parent, frame, own, total }).ok_or(Damaged)
        });
        let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
        let is_root = |root: &usize| nodes.get(*root).is_some_and(|node| node.parent.is_none());
        let function_roots = functions.iter().flat_map(|(_, roots)| roots);
        if !function_roots.chain(workers.iter().flat_map(|(_, roots)| roots)).all(is_root) {
            return Err(Damaged);
        }
        Ok(Self { profile: Profile { frames, nodes }, functions, workers })
    }

    /// Returns the functions with the number of their samples.
    pub fn samples_by_function(&self) -> impl Iterator<Item = (&str, i64)> {
        self.functions.iter().map(|(prefix, roots)| (prefix.as_str(), self.samples_below(roots)))
    }

    /// Returns the workers with the number of their samples.
    pub fn samples_by_worker(&self) -> impl Iterator<Item = (WorkerId, i64)> {
        self.workers.iter().map(|(worker, roots)| (*worker, self.samples_below(roots)))
    }

    fn samples_below(&self, roots: &[usize]) -> i64 {
        let totals = roots.iter().map(|root| self.profile.nodes[*root].total);
        totals.fold(0, i64::saturating_add)
    }

    /// Returns the selected samples. `None` if functions or workers are selected that are unknown.
    #[must_use]
    pub fn select(&self, selection: &Selection) -> Option<Cow<'_, Profile>> {
        let Selection { functions, workers } = selection;
        if selection.is_everything() {
            return Some(Cow::Borrowed(&self.profile));
        }
        let is_root = |(index, node): (usize, &Node)| node.parent.is_none().then_some(index);
        let mut roots: HashSet<usize> = self.profile.nodes.iter().enumerate().filter_map(is_root).collect();
        if let Some(functions) = functions {
            let function_roots = self.roots_of(&self.functions, functions)?;
            roots.retain(|root| function_roots.contains(root));
        }
        if let Some(workers) = workers {
            let worker_roots = self.roots_of(&self.workers, workers)?;
            roots.retain(|root| worker_roots.contains(root));
        }
        let mut merge = Merge::default();
        let mut indexes: Vec<Option<usize>> = Vec::with_capacity(self.profile.nodes.len());
        for (index, node) in self.profile.nodes.iter().enumerate() {
            let parent = match node.parent {
                Some(parent) => indexes[parent].map(Some),
                None => roots.contains(&index).then_some(None),
            };
            let frame = &self.profile.frames[node.frame];
            indexes.push(parent.map(|parent| merge.node(parent, frame, node.own, node.total)));
        }
        Some(Cow::Owned(merge.profile()))
    }

    /// Returns the outermost nodes of the selected parts. `None` if the parts are unknown.
    fn roots_of<K: Ord>(&self, parts: &[(K, Vec<usize>)], selected: &BTreeSet<K>) -> Option<HashSet<usize>> {
        if parts.is_empty() && !self.profile.nodes.is_empty() {
            return None;
        }
        let parts = parts.iter().filter(|(key, _)| selected.contains(key));
        Some(parts.flat_map(|(_, roots)| roots.iter().copied()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::merge, *};

    fn frame(line: i64, text: Option<&str>) -> Frame {
        Frame { file: "a.py".to_owned(), function: "f".to_owned(), line, text: text.map(str::to_owned) }
    }

    fn node(parent: Option<usize>, frame: usize, own: i64, total: i64) -> Node {
        Node { parent, frame, own, total }
    }

    #[test]
    fn trees_that_are_none_are_found() {
        let report = |nodes: &str| -> ProfileReport {
            serde_json::from_str(&format!(
                r#"{{"id": "00000000-0000-0000-0000-000000000001", "started_at": 0, "stopped_at": 1, "workers": 1,
                "samples": 1, "frames": [{{"file": "a.py", "function": "f", "line": 1}}], "nodes": {nodes}}}"#
            ))
            .expect("a profile")
        };
        for (nodes, expected_pointer) in [
            ("[[-1, 0, 1, 1], [0, 0, 1, 1]]", None),
            ("[[0, 0, 1, 1]]", Some("/nodes/0/0")),
            ("[[-1, 0, 1, 1], [2, 0, 1, 1]]", Some("/nodes/1/0")),
            ("[[-1, 0, 1, 1], [-2, 0, 1, 1]]", Some("/nodes/1/0")),
            ("[[-1, 1, 1, 1]]", Some("/nodes/0/1")),
        ] {
            let report = report(nodes);
            let pointer = check(&report).err().map(|error| error.pointer);
            assert_eq!(pointer.as_deref(), expected_pointer, "{nodes}");
            assert_eq!(Window::unpack(&pack(&report)).is_ok(), expected_pointer.is_none(), "{nodes}");
        }
    }

    #[test]
    fn functions_have_parts_of_a_window() {
        let report = |functions: &str| -> ProfileReport {
            serde_json::from_str(&format!(
                r#"{{"id": "00000000-0000-0000-0000-000000000001", "started_at": 0, "stopped_at": 1, "workers": 1,
                "samples": 16, "frames": [{{"file": "a.py", "function": "f", "line": 1}},
                    {{"file": "a.py", "function": "f", "line": 2}}],
                "nodes": [[-1, 0, 1, 5], [0, 1, 4, 4], [-1, 0, 8, 8], [-1, 1, 3, 3]]{functions}}}"#
            ))
            .expect("a profile")
        };
        let with_functions = report(
            r#", "functions": [{"prefix": "load", "roots": [0, 3]}, {"prefix": "fit", "roots": [2]}]"#,
        );
        assert_eq!(check(&with_functions).err(), None);
        let window = Window::unpack(&pack(&with_functions)).expect("a window");
        assert_eq!(window.samples_by_function().collect::<Vec<_>>(), [("load", 8), ("fit", 8)]);
        let select = |prefixes: &[&str]| {
            let prefixes = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
            let selection = Selection { functions: Some(prefixes), workers: None };
            window.select(&selection).map(Cow::into_owned)
        };
        let load = Profile {
            frames: vec![frame(1, None), frame(2, None)],
            nodes: vec![node(None, 0, 1, 5), node(Some(0), 1, 4, 4), node(None, 1, 3, 3)],
        };
        assert_eq!(select(&["load"]), Some(load));
        let fit = Profile { frames: vec![frame(1, None)], nodes: vec![node(None, 0, 8, 8)] };
        assert_eq!(select(&["fit", "other"]), Some(fit));
        assert_eq!(select(&["other"]), Some(Profile::default()));
        // Both parts add up to the whole.
        assert_eq!(select(&["load", "fit"]), Some(merge([&window.profile])));

        let without_functions = report("");
        let window = Window::unpack(&pack(&without_functions)).expect("a window");
        let selected = Some(BTreeSet::from(["load".to_owned()]));
        assert_eq!(window.select(&Selection { functions: selected, workers: None }), None);
        assert_eq!(window.select(&Selection::default()), Some(Cow::Borrowed(&window.profile)));
        let earlier: Vec<Vec<serde_json::Value>> =
            serde_json::from_slice(&pack(&without_functions)).expect("lists of frames and nodes");
        assert_eq!(earlier.iter().map(Vec::len).collect::<Vec<_>>(), [2, 4]);

        for (roots, expected_pointer) in [
            ("[1]", "/functions/1/roots/0"),
            ("[3, 2]", "/functions/1/roots/1"),
            ("[4]", "/functions/1/roots/0"),
        ] {
            let functions = format!(
                r#", "functions": [{{"prefix": "a", "roots": [2]}}, {{"prefix": "b", "roots": {roots}}}]"#
            );
            let pointer = check(&report(&functions)).err().map(|error| error.pointer);
            assert_eq!(pointer.as_deref(), Some(expected_pointer), "{roots}");
        }
    }

    #[test]
    fn workers_have_parts_of_a_window_beside_functions() {
        let report: ProfileReport = serde_json::from_str(
            r#"{"id": "00000000-0000-0000-0000-000000000001", "started_at": 0, "stopped_at": 1, "workers": 2,
            "samples": 16, "frames": [{"file": "a.py", "function": "f", "line": 1}],
            "nodes": [[-1, 0, 5, 5], [-1, 0, 8, 8], [-1, 0, 3, 3]],
            "functions": [{"prefix": "load", "roots": [0, 1]}, {"prefix": "fit", "roots": [2]}],
            "by_worker": [{"worker": "00000000-0000-0000-0000-00000000000a", "roots": [0, 2]},
                {"worker": "00000000-0000-0000-0000-00000000000b", "roots": [1]}]}"#,
        )
        .expect("a profile");
        assert_eq!(check(&report).err(), None);
        let window = Window::unpack(&pack(&report)).expect("a window");
        let worker = |id: u128| WorkerId(uuid::Uuid::from_u128(id));
        assert_eq!(window.samples_by_worker().collect::<Vec<_>>(), [(worker(10), 8), (worker(11), 8)]);
        let samples = |functions: Option<&str>, workers: &[u128]| {
            let functions = functions.map(|prefix| BTreeSet::from([prefix.to_owned()]));
            let workers = Some(workers.iter().map(|id| worker(*id)).collect());
            window.select(&Selection { functions, workers }).map(|profile| profile.samples())
        };
        assert_eq!(samples(None, &[10, 11]), Some(16));
        assert_eq!(samples(Some("load"), &[10]), Some(5));
        assert_eq!(samples(Some("fit"), &[11, 12]), Some(0));
        let mut repeated_root = report.clone();
        repeated_root.by_worker = serde_json::from_str(
            r#"[{"worker": "00000000-0000-0000-0000-00000000000a", "roots": [0]},
            {"worker": "00000000-0000-0000-0000-00000000000b", "roots": [0]}]"#,
        )
        .expect("workers");
        let pointer = check(&repeated_root).err().map(|error| error.pointer);
        assert_eq!(pointer.as_deref(), Some("/by_worker/1/roots/0"));
    }
}
