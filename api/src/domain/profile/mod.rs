//! Statistical profiles: the windows of reports, and the merge of several.
//!
//! A merge is a sum over trees. It is commutative and associative, for the windows of one cluster and for
//! several clusters. A frame is identified by file, function and line. The text of the line is not part
//! of its identity, because it may be withheld. Of several texts the last one in sort order is kept, and
//! any text is preferred to none.

mod window;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

pub(crate) use self::window::pack;
pub use self::window::{Damaged, Selection, Window, check};

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

impl Profile {
    /// Returns the number of samples: the sum of the outermost nodes.
    #[must_use]
    pub fn samples(&self) -> i64 {
        let roots = self.nodes.iter().filter(|node| node.parent.is_none());
        roots.map(|node| node.total).fold(0_i64, i64::saturating_add)
    }

    /// Returns the profile without nodes of fewer than `samples` samples, and with at most the `max_nodes`
    /// most expensive nodes.
    #[must_use]
    pub fn pruned(&self, samples: f64, max_nodes: usize) -> Self {
        let mut costs: Vec<i64> = self.nodes.iter().map(|node| node.total).collect();
        costs.sort_unstable_by(|a, b| b.cmp(a));
        let too_cheap = costs.get(max_nodes).copied().unwrap_or(-1);
        let mut merge = Merge::default();
        let mut indexes: Vec<Option<usize>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let parent = node.parent.map_or(Some(None), |parent| indexes[parent].map(Some));
            #[expect(clippy::cast_precision_loss, reason = "counts of samples are far below 2^53")]
            let is_expensive = node.total as f64 >= samples && node.total > too_cheap;
            let index = parent
                .filter(|_| is_expensive)
                .map(|parent| merge.node(parent, &self.frames[node.frame], node.own, node.total));
            indexes.push(index);
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
        let node_indexes: HashMap<(Option<usize>, usize), usize> =
            self.nodes.iter().enumerate().map(|(index, node)| ((node.parent, node.frame), index)).collect();
        let frame_indexes: Vec<Option<usize>> =
            part.frames.iter().map(|frame| frames.get(&identity(frame)).copied()).collect();
        let mut counts = vec![Counts::default(); self.nodes.len()];
        let mut indexes: Vec<Option<usize>> = Vec::with_capacity(part.nodes.len());
        for node in &part.nodes {
            let parent = node.parent.map_or(Some(None), |parent| indexes[parent].map(Some));
            let index = parent.zip(frame_indexes[node.frame]).and_then(|key| node_indexes.get(&key)).copied();
            if let Some(index) = index {
                counts[index].own = counts[index].own.saturating_add(node.own);
                counts[index].total = counts[index].total.saturating_add(node.total);
            }
            indexes.push(index);
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
        let mut indexes: Vec<usize> = Vec::with_capacity(profile.nodes.len());
        for node in &profile.nodes {
            let parent = node.parent.map(|parent| indexes[parent]);
            indexes.push(self.node(parent, &profile.frames[node.frame], node.own, node.total));
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
        let longest_text = &mut self.frames[index].text;
        if frame.text > *longest_text {
            longest_text.clone_from(&frame.text);
        }
        index
    }

    /// Returns the sum in its canonical form.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let ordered: BTreeMap<&Frame, usize> =
            self.frames.iter().enumerate().map(|(index, frame)| (frame, index)).collect();
        let mut frame_positions = vec![0; self.frames.len()];
        for (position, index) in ordered.values().enumerate() {
            frame_positions[*index] = position;
        }
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut pending: Vec<usize> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            node.parent.map_or(&mut pending, |parent| &mut children[parent]).push(index);
        }
        // The stack is sorted so that the next node is last.
        let by_cost = |a: &usize, b: &usize| {
            let (a, b) = (&self.nodes[*a], &self.nodes[*b]);
            a.total.cmp(&b.total).then(frame_positions[b.frame].cmp(&frame_positions[a.frame]))
        };
        pending.sort_by(by_cost);
        let mut node_positions = vec![0; self.nodes.len()];
        let mut nodes = Vec::with_capacity(self.nodes.len());
        while let Some(index) = pending.pop() {
            let node = self.nodes[index];
            node_positions[index] = nodes.len();
            nodes.push(Node {
                parent: node.parent.map(|parent| node_positions[parent]),
                frame: frame_positions[node.frame],
                ..node
            });
            let mut child_nodes = std::mem::take(&mut children[index]);
            child_nodes.sort_by(by_cost);
            pending.append(&mut child_nodes);
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
        let first_profile = Profile {
            frames: vec![frame(2, None), frame(1, Some("x"))],
            nodes: vec![node(None, 1, 1, 4), node(Some(0), 0, 3, 3)],
        };
        let second_profile = Profile {
            frames: vec![frame(1, None), frame(2, Some("y")), frame(3, None)],
            nodes: vec![node(None, 0, 2, 9), node(Some(0), 2, 7, 7), node(None, 1, 1, 1)],
        };
        let sum = Profile {
            frames: vec![frame(1, Some("x")), frame(2, Some("y")), frame(3, None)],
            nodes: vec![
                node(None, 0, 3, 13),
                node(Some(0), 2, 7, 7),
                node(Some(0), 1, 3, 3),
                node(None, 1, 1, 1),
            ],
        };
        assert_eq!(merge([&first_profile, &second_profile]), sum);
        assert_eq!(merge([&second_profile, &first_profile]), sum);
        assert_eq!(merge([&sum, &Profile::default()]), sum);
    }

    #[test]
    fn pruning_takes_branches_and_their_frames() {
        let profile = merge([&Profile {
            frames: vec![frame(1, None), frame(2, None), frame(3, None)],
            nodes: vec![node(None, 0, 90, 100), node(Some(0), 1, 9, 9), node(Some(0), 2, 1, 1)],
        }]);
        let lines = |samples, max_nodes| {
            profile.pruned(samples, max_nodes).frames.iter().map(|frame| frame.line).collect::<Vec<_>>()
        };
        assert_eq!(lines(0.0, 10), [1, 2, 3]);
        assert_eq!(lines(1.1, 10), [1, 2]);
        assert_eq!(lines(0.0, 2), [1, 2]);
        assert_eq!(lines(101.0, 10), [0_i64; 0]);
    }

    #[test]
    fn a_sum_is_told_apart_again() {
        let first_profile = Profile {
            frames: vec![frame(1, None), frame(2, Some("x"))],
            nodes: vec![node(None, 0, 1, 4), node(Some(0), 1, 3, 3)],
        };
        let second_profile = Profile {
            frames: vec![frame(1, None), frame(3, None)],
            nodes: vec![node(None, 0, 2, 9), node(Some(0), 1, 7, 7)],
        };
        let sum = merge([&first_profile, &second_profile]);
        let counts = |summand: &Profile| -> Vec<(i64, i64)> {
            sum.counts_in(summand).into_iter().map(|counts| (counts.own, counts.total)).collect()
        };
        // The second node of `sum` is line 3, the more expensive one.
        assert_eq!(
            (counts(&first_profile), counts(&second_profile)),
            (vec![(1, 4), (0, 0), (3, 3)], vec![(2, 9), (7, 7), (0, 0)])
        );
        // Pruned nodes and their descendants have no counts.
        assert_eq!(sum.pruned(5.0, 10).counts_in(&first_profile).len(), 2);
    }
}
