//! Which earlier run a cluster is measured by, when nobody says.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use entity::ids::ClusterId;

use super::{Evidence, Subject, moment};

/// The tag of work outside of any span.
const NO_SPAN: &str = "default";

/// The share of all functions of two runs that both must have, to be the same work.
const SHARED: (usize, usize) = (1, 2);

/// An earlier run of the same user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierRun {
    /// Its cluster.
    pub id: ClusterId,
    /// The name the cluster manager gave it.
    pub name: Option<String>,
    /// Whether it had tasks, none of which failed, and closed.
    pub good: bool,
}

/// What a run was about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The tags of the outermost spans.
    pub tags: BTreeSet<String>,
    /// The functions that computed longest.
    pub functions: BTreeSet<String>,
}

/// Why two runs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Somebody asked for it.
    Asked,
    /// They have the same name.
    Name,
    /// Their outermost spans have the same tags.
    Spans,
    /// Most of their functions are the same.
    Functions,
}

/// The run that another one is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Against {
    /// Its cluster.
    pub id: ClusterId,
    /// When that started.
    pub started_at: DateTime<Utc>,
    /// Why it is this one.
    pub likeness: Likeness,
}

impl Against {
    /// As the end of a sentence.
    pub(super) fn name(&self) -> String {
        format!("cluster {}", self.id)
    }

    /// Which it is, and why.
    pub(super) fn evidence(&self) -> Evidence {
        let why = match self.likeness {
            Likeness::Asked => "as asked",
            Likeness::Name => "the last good run with the same name",
            Likeness::Spans => "the last good run with the same outermost spans",
            Likeness::Functions => "the last good run with most of its functions",
        };
        let label = format!("Compared with cluster {} of {}, {why}", self.id, moment(self.started_at));
        Evidence::new(label).about(Subject::Cluster(self.id))
    }
}

impl Workload {
    /// Why two runs are the same work, if they are. Where one names spans these decide, and otherwise functions do.
    #[must_use]
    pub fn likeness(&self, other: &Self) -> Option<Likeness> {
        let named = |workload: &Self| -> BTreeSet<String> {
            workload.tags.iter().filter(|tag| *tag != NO_SPAN).cloned().collect()
        };
        let (ours, theirs) = (named(self), named(other));
        if !ours.is_empty() || !theirs.is_empty() {
            return (ours == theirs).then_some(Likeness::Spans);
        }
        let shared = self.functions.intersection(&other.functions).count();
        let all = self.functions.union(&other.functions).count();
        (shared > 0 && shared * SHARED.1 >= all * SHARED.0).then_some(Likeness::Functions)
    }
}

/// The run of the same user that a run is measured by: the last good one with its name, or else the last good one with
/// its work, as far as that is known. `earlier` has the newest first.
#[must_use]
pub fn last_good_run(
    name: Option<&str>,
    workload: &Workload,
    earlier: &[EarlierRun],
    workloads: &BTreeMap<ClusterId, Workload>,
) -> Option<(ClusterId, Likeness)> {
    let good = || earlier.iter().filter(|run| run.good);
    let same_name = |run: &&EarlierRun| name.is_some() && run.name.as_deref() == name;
    if let Some(run) = good().find(same_name) {
        return Some((run.id, Likeness::Name));
    }
    good().find_map(|run| Some((run.id, workloads.get(&run.id)?.likeness(workload)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(tags: &[&str], functions: &[&str]) -> Workload {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Workload { tags: set(tags), functions: set(functions) }
    }

    #[test]
    fn work_is_the_same_by_its_spans_or_else_by_its_functions() {
        let of =
            |a: (&[&str], &[&str]), b: (&[&str], &[&str])| workload(a.0, a.1).likeness(&workload(b.0, b.1));
        assert_eq!(of((&["etl", "default"], &["a"]), (&["etl"], &["b"])), Some(Likeness::Spans));
        assert_eq!(of((&["etl"], &["a"]), (&["train"], &["a"])), None);
        assert_eq!(of((&["etl"], &["a"]), (&["default"], &["a"])), None);
        assert_eq!(of((&["default"], &["a", "b"]), (&[], &["b", "a"])), Some(Likeness::Functions));
        assert_eq!(of((&[], &["a", "b"]), (&[], &["a"])), Some(Likeness::Functions));
        assert_eq!(of((&[], &["a", "b"]), (&[], &["a", "c"])), None);
        assert_eq!(of((&[], &[]), (&[], &[])), None);
    }

    #[test]
    fn the_same_name_goes_before_the_same_work_and_failure_before_neither() {
        let run = |id, name: Option<&str>, good| EarlierRun {
            id: ClusterId(id),
            name: name.map(str::to_owned),
            good,
        };
        let earlier = [
            run(5, Some("etl"), false),
            run(4, None, true),
            run(3, Some("etl"), true),
            run(2, Some("etl"), true),
        ];
        let work = workload(&["etl"], &[]);
        let workloads = earlier.iter().map(|run| (run.id, work.clone())).collect();
        let found = |name| last_good_run(name, &work, &earlier, &workloads);
        assert_eq!(found(Some("etl")), Some((ClusterId(3), Likeness::Name)));
        assert_eq!(found(Some("x")), Some((ClusterId(4), Likeness::Spans)));
        assert_eq!(found(None), Some((ClusterId(4), Likeness::Spans)));
        assert_eq!(last_good_run(None, &workload(&["x"], &[]), &earlier, &workloads), None);
        assert_eq!(last_good_run(None, &work, &earlier[..1], &workloads), None);
    }
}
