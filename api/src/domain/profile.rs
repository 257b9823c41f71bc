//! Statistical profiles: the packed form of a window, its parts by function, and the merge of several.
//!
//! A merge is a sum over trees. It is commutative and associative, for the windows of one cluster and for
//! several clusters. A frame is identified by file, function and line. The text of the line is not part
//! of its identity, because it may be withheld. Of several texts the last one in sort order is kept, and
//! any text is preferred to none.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{
    report::{ProfileNode, ProfileReport},
    validated::LocatedError,
};

/// The value of a report for the parent index of a root.
const ROOT: i64 = -1;

/// A line of code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// The file.
    pub file: String,
    /// The function.
    pub function: String,
    /// The line number.
    pub line: i64,
    /// The text of the line. `None` if code was not sent.
    pub text: Option<String>,
}

/// A node of the call tree: a line of code on one path of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The index of the calling node, which precedes this one. `None` for a root.
    pub parent: Option<usize>,
    /// The index of its frame.
    pub frame: usize,
    /// The number of samples in which it was innermost.
    pub own: i64,
    /// The number of samples that contain it.
    pub total: i64,
}

/// A profile in a canonical form: parents before children, the most expensive branch first, and only
/// frames that occur, in sort order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The lines of code that occur.
    pub frames: Vec<Frame>,
    /// The nodes of the call tree.
    pub nodes: Vec<Node>,
}

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
    let mut roots = HashSet::new();
    for (number, function) in report.functions.iter().enumerate() {
        for (index, root) in function.roots.iter().enumerate() {
            let node = usize::try_from(root.get()).ok().and_then(|root| report.nodes.get(root));
            if node.is_none_or(|node| node.0 != ROOT) || !roots.insert(root.get()) {
                return Err(LocatedError {
                    pointer: format!("/functions/{number}/roots/{index}"),
                    message: "not the index of an outermost node that belongs to no other function"
                        .to_owned(),
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
}

/// The packed form of a window.
#[derive(Deserialize)]
struct Packed(
    Vec<Frame>,
    Vec<(i64, usize, i64, i64)>,
    /// Absent if no functions are known, so that earlier releases of the server can read it.
    #[serde(default)]
    Vec<(String, Vec<usize>)>,
);

/// Packs the frames, nodes and functions of a report.
#[must_use]
pub(crate) fn pack(report: &ProfileReport) -> Vec<u8> {
    let (frames, nodes) = (&*report.frames, &*report.nodes);
    let functions: Vec<(&str, Vec<i64>)> = report
        .functions
        .iter()
        .map(|function| (function.prefix.as_str(), function.roots.iter().map(|root| root.get()).collect()))
        .collect();
    let packed = if functions.is_empty() {
        serde_json::to_vec(&(frames, nodes))
    } else {
        serde_json::to_vec(&(frames, nodes, functions))
    };
    packed.expect("texts and numbers are always JSON")
}

impl Window {
    /// Reads a window that `pack` packed.
    ///
    /// # Errors
    /// Returns [`Damaged`] for all other input.
    pub fn unpack(packed: &[u8]) -> Result<Self, Damaged> {
        let Packed(frames, nodes, functions) = serde_json::from_slice(packed).map_err(|_| Damaged)?;
        let nodes = nodes.into_iter().enumerate().map(|(index, (parent, frame, own, total))| {
            let parent =
                if parent == ROOT { None } else { Some(usize::try_from(parent).map_err(|_| Damaged)?) };
            let whole = frame < frames.len() && parent.is_none_or(|parent| parent < index);
            whole.then_some(Node { parent, frame, own, total }).ok_or(Damaged)
        });
        let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
        let is_root = |root: &usize| nodes.get(*root).is_some_and(|node| node.parent.is_none());
        if !functions.iter().flat_map(|(_, roots)| roots).all(is_root) {
            return Err(Damaged);
        }
        Ok(Self { profile: Profile { frames, nodes }, functions })
    }

    /// Returns the functions with the number of their samples.
    pub fn samples_by_function(&self) -> impl Iterator<Item = (&str, i64)> {
        let total = |root: &usize| self.profile.nodes[*root].total;
        let sum = move |roots: &[usize]| roots.iter().map(total).fold(0_i64, i64::saturating_add);
        self.functions.iter().map(move |(prefix, roots)| (prefix.as_str(), sum(roots)))
    }

    /// Returns the samples in tasks of some functions. `None` if the functions are unknown.
    #[must_use]
    pub fn of_functions(&self, prefixes: &BTreeSet<String>) -> Option<Profile> {
        if self.functions.is_empty() && !self.profile.nodes.is_empty() {
            return None;
        }
        let selected = self.functions.iter().filter(|(prefix, _)| prefixes.contains(prefix));
        let roots: HashSet<usize> = selected.flat_map(|(_, roots)| roots.iter().copied()).collect();
        let mut merge = Merge::default();
        let mut here: Vec<Option<usize>> = Vec::with_capacity(self.profile.nodes.len());
        for (index, node) in self.profile.nodes.iter().enumerate() {
            let parent = match node.parent {
                Some(parent) => here[parent].map(Some),
                None => roots.contains(&index).then_some(None),
            };
            let frame = &self.profile.frames[node.frame];
            here.push(parent.map(|parent| merge.node(parent, frame, node.own, node.total)));
        }
        Some(merge.profile())
    }
}

impl Profile {
    /// Returns the number of samples: the sum of the outermost nodes.
    #[must_use]
    pub fn samples(&self) -> i64 {
        let roots = self.nodes.iter().filter(|node| node.parent.is_none());
        roots.map(|node| node.total).fold(0_i64, i64::saturating_add)
    }

    /// Returns the profile without nodes of fewer than `samples` samples, and with at most the `most`
    /// most expensive nodes.
    #[must_use]
    pub fn pruned(&self, samples: f64, most: usize) -> Self {
        let mut costs: Vec<i64> = self.nodes.iter().map(|node| node.total).collect();
        costs.sort_unstable_by(|a, b| b.cmp(a));
        let too_cheap = costs.get(most).copied().unwrap_or(-1);
        let mut merge = Merge::default();
        let mut kept: Vec<Option<usize>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let parent = node.parent.map_or(Some(None), |parent| kept[parent].map(Some));
            #[expect(clippy::cast_precision_loss, reason = "counts of samples are far below 2^53")]
            let counts = node.total as f64 >= samples && node.total > too_cheap;
            let index = parent
                .filter(|_| counts)
                .map(|parent| merge.node(parent, &self.frames[node.frame], node.own, node.total));
            kept.push(index);
        }
        merge.profile()
    }
}

/// The samples of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of samples in which it was innermost.
    pub own: i64,
    /// The number of samples that contain it.
    pub total: i64,
}

impl Profile {
    /// Returns the samples in `part` of each node of this tree. `part` is one of the profiles from which
    /// this one was merged.
    #[must_use]
    pub fn counts_in(&self, part: &Self) -> Vec<Counts> {
        let identity = |frame: &Frame| Frame { text: None, ..frame.clone() };
        let frames: HashMap<Frame, usize> =
            self.frames.iter().enumerate().map(|(index, frame)| (identity(frame), index)).collect();
        let places: HashMap<(Option<usize>, usize), usize> =
            self.nodes.iter().enumerate().map(|(index, node)| ((node.parent, node.frame), index)).collect();
        let theirs: Vec<Option<usize>> =
            part.frames.iter().map(|frame| frames.get(&identity(frame)).copied()).collect();
        let mut counts = vec![Counts::default(); self.nodes.len()];
        let mut here: Vec<Option<usize>> = Vec::with_capacity(part.nodes.len());
        for node in &part.nodes {
            let parent = node.parent.map_or(Some(None), |parent| here[parent].map(Some));
            let place = parent.zip(theirs[node.frame]).and_then(|key| places.get(&key)).copied();
            if let Some(place) = place {
                counts[place].own = counts[place].own.saturating_add(node.own);
                counts[place].total = counts[place].total.saturating_add(node.total);
            }
            here.push(place);
        }
        counts
    }
}

/// Merges several profiles.
#[must_use]
pub fn merge<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Profile {
    let mut merge = Merge::default();
    for profile in profiles {
        merge.add(profile);
    }
    merge.profile()
}

/// A sum of profiles in progress.
#[derive(Debug, Default)]
pub struct Merge {
    frames: Vec<Frame>,
    frame_index: HashMap<Frame, usize>,
    nodes: Vec<Node>,
    node_index: HashMap<(Option<usize>, usize), usize>,
}

impl Merge {
    /// Adds a profile.
    pub fn add(&mut self, profile: &Profile) {
        let mut here: Vec<usize> = Vec::with_capacity(profile.nodes.len());
        for node in &profile.nodes {
            let parent = node.parent.map(|parent| here[parent]);
            here.push(self.node(parent, &profile.frames[node.frame], node.own, node.total));
        }
    }

    /// Adds samples to a node, and creates the node if it does not exist.
    fn node(&mut self, parent: Option<usize>, frame: &Frame, own: i64, total: i64) -> usize {
        let frame = self.frame(frame);
        let index = *self.node_index.entry((parent, frame)).or_insert_with(|| {
            self.nodes.push(Node { parent, frame, own: 0, total: 0 });
            self.nodes.len() - 1
        });
        let node = &mut self.nodes[index];
        node.own = node.own.saturating_add(own);
        node.total = node.total.saturating_add(total);
        index
    }

    fn frame(&mut self, frame: &Frame) -> usize {
        let identity = Frame { text: None, ..frame.clone() };
        let index = *self.frame_index.entry(identity).or_insert_with(|| {
            self.frames.push(Frame { text: None, ..frame.clone() });
            self.frames.len() - 1
        });
        let known = &mut self.frames[index].text;
        if frame.text > *known {
            known.clone_from(&frame.text);
        }
        index
    }

    /// Returns the sum in its canonical form.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let ordered: BTreeMap<&Frame, usize> =
            self.frames.iter().enumerate().map(|(index, frame)| (frame, index)).collect();
        let mut places = vec![0; self.frames.len()];
        for (place, index) in ordered.values().enumerate() {
            places[*index] = place;
        }
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut waiting: Vec<usize> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            node.parent.map_or(&mut waiting, |parent| &mut children[parent]).push(index);
        }
        // The stack is sorted so that the next node is last.
        let by_cost = |a: &usize, b: &usize| {
            let (a, b) = (&self.nodes[*a], &self.nodes[*b]);
            a.total.cmp(&b.total).then(places[b.frame].cmp(&places[a.frame]))
        };
        waiting.sort_by(by_cost);
        let mut here = vec![0; self.nodes.len()];
        let mut nodes = Vec::with_capacity(self.nodes.len());
        while let Some(index) = waiting.pop() {
            let node = self.nodes[index];
            here[index] = nodes.len();
            nodes.push(Node {
                parent: node.parent.map(|parent| here[parent]),
                frame: places[node.frame],
                ..node
            });
            let mut below = std::mem::take(&mut children[index]);
            below.sort_by(by_cost);
            waiting.append(&mut below);
        }
        Profile { frames: ordered.into_keys().cloned().collect(), nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(line: i64, text: Option<&str>) -> Frame {
        Frame { file: "a.py".to_owned(), function: "f".to_owned(), line, text: text.map(str::to_owned) }
    }

    fn node(parent: Option<usize>, frame: usize, own: i64, total: i64) -> Node {
        Node { parent, frame, own, total }
    }

    #[test]
    fn the_same_paths_are_summed_and_others_kept() {
        let one = Profile {
            frames: vec![frame(2, None), frame(1, Some("x"))],
            nodes: vec![node(None, 1, 1, 4), node(Some(0), 0, 3, 3)],
        };
        let other = Profile {
            frames: vec![frame(1, None), frame(2, Some("y")), frame(3, None)],
            nodes: vec![node(None, 0, 2, 9), node(Some(0), 2, 7, 7), node(None, 1, 1, 1)],
        };
        let both = Profile {
            frames: vec![frame(1, Some("x")), frame(2, Some("y")), frame(3, None)],
            nodes: vec![
                node(None, 0, 3, 13),
                node(Some(0), 2, 7, 7),
                node(Some(0), 1, 3, 3),
                node(None, 1, 1, 1),
            ],
        };
        assert_eq!(merge([&one, &other]), both);
        assert_eq!(merge([&other, &one]), both);
        assert_eq!(merge([&both, &Profile::default()]), both);
    }

    #[test]
    fn pruning_takes_branches_and_their_frames() {
        let profile = merge([&Profile {
            frames: vec![frame(1, None), frame(2, None), frame(3, None)],
            nodes: vec![node(None, 0, 90, 100), node(Some(0), 1, 9, 9), node(Some(0), 2, 1, 1)],
        }]);
        let lines = |samples, most| {
            profile.pruned(samples, most).frames.iter().map(|frame| frame.line).collect::<Vec<_>>()
        };
        assert_eq!(lines(0.0, 10), [1, 2, 3]);
        assert_eq!(lines(1.1, 10), [1, 2]);
        assert_eq!(lines(0.0, 2), [1, 2]);
        assert_eq!(lines(101.0, 10), [0_i64; 0]);
    }

    #[test]
    fn a_sum_is_told_apart_again() {
        let one = Profile {
            frames: vec![frame(1, None), frame(2, Some("x"))],
            nodes: vec![node(None, 0, 1, 4), node(Some(0), 1, 3, 3)],
        };
        let other = Profile {
            frames: vec![frame(1, None), frame(3, None)],
            nodes: vec![node(None, 0, 2, 9), node(Some(0), 1, 7, 7)],
        };
        let both = merge([&one, &other]);
        let counts = |part: &Profile| -> Vec<(i64, i64)> {
            both.counts_in(part).into_iter().map(|counts| (counts.own, counts.total)).collect()
        };
        // The second node of `both` is line 3, the more expensive one.
        assert_eq!(
            (counts(&one), counts(&other)),
            (vec![(1, 4), (0, 0), (3, 3)], vec![(2, 9), (7, 7), (0, 0)])
        );
        // Pruned nodes and their descendants have no counts.
        assert_eq!(both.pruned(5.0, 10).counts_in(&one).len(), 2);
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
        for (nodes, place) in [
            ("[[-1, 0, 1, 1], [0, 0, 1, 1]]", None),
            ("[[0, 0, 1, 1]]", Some("/nodes/0/0")),
            ("[[-1, 0, 1, 1], [2, 0, 1, 1]]", Some("/nodes/1/0")),
            ("[[-1, 0, 1, 1], [-2, 0, 1, 1]]", Some("/nodes/1/0")),
            ("[[-1, 1, 1, 1]]", Some("/nodes/0/1")),
        ] {
            let report = report(nodes);
            let wrong = check(&report).err().map(|wrong| wrong.pointer);
            assert_eq!(wrong.as_deref(), place, "{nodes}");
            assert_eq!(Window::unpack(&pack(&report)).is_ok(), place.is_none(), "{nodes}");
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
        let known = report(
            r#", "functions": [{"prefix": "load", "roots": [0, 3]}, {"prefix": "fit", "roots": [2]}]"#,
        );
        assert_eq!(check(&known).err(), None);
        let window = Window::unpack(&pack(&known)).expect("a window");
        assert_eq!(window.samples_by_function().collect::<Vec<_>>(), [("load", 8), ("fit", 8)]);
        let part = |prefixes: &[&str]| {
            let prefixes = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
            window.of_functions(&prefixes)
        };
        let load = Profile {
            frames: vec![frame(1, None), frame(2, None)],
            nodes: vec![node(None, 0, 1, 5), node(Some(0), 1, 4, 4), node(None, 1, 3, 3)],
        };
        assert_eq!(part(&["load"]), Some(load));
        let fit = Profile { frames: vec![frame(1, None)], nodes: vec![node(None, 0, 8, 8)] };
        assert_eq!(part(&["fit", "other"]), Some(fit));
        assert_eq!(part(&["other"]), Some(Profile::default()));
        // Both parts add up to the whole.
        assert_eq!(part(&["load", "fit"]), Some(merge([&window.profile])));

        let unknown = report("");
        let window = Window::unpack(&pack(&unknown)).expect("a window");
        assert_eq!(window.of_functions(&BTreeSet::from(["load".to_owned()])), None);
        let earlier: Vec<Vec<serde_json::Value>> =
            serde_json::from_slice(&pack(&unknown)).expect("lists of frames and nodes");
        assert_eq!(earlier.iter().map(Vec::len).collect::<Vec<_>>(), [2, 4]);

        for (roots, place) in [
            ("[1]", "/functions/1/roots/0"),
            ("[3, 2]", "/functions/1/roots/1"),
            ("[4]", "/functions/1/roots/0"),
        ] {
            let functions = format!(
                r#", "functions": [{{"prefix": "a", "roots": [2]}}, {{"prefix": "b", "roots": {roots}}}]"#
            );
            let wrong = check(&report(&functions)).err().map(|wrong| wrong.pointer);
            assert_eq!(wrong.as_deref(), Some(place), "{roots}");
        }
    }
}
