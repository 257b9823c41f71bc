//! Selection of the earlier run with which a cluster is compared by default.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use entity::ids::ClusterId;

use super::{AnswerCode, Evidence, Subject, Value};

/// Dask's tag of work outside of any span.
const NO_SPAN: &str = "default";

/// The ratio of shared functions to all functions of two runs from which they count as the same work.
const SHARED: (usize, usize) = (1, 2);

/// An earlier run of the same user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierRun {
    /// The id of its cluster.
    pub id: ClusterId,
    /// The name the cluster manager gave it.
    pub name: Option<String>,
    /// True if it had tasks, none of them failed, and it closed.
    pub is_good: bool,
}

/// The characteristics of a run's work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The tags of the outermost spans.
    pub tags: BTreeSet<String>,
    /// The functions with the longest compute times.
    pub functions: BTreeSet<String>,
}

/// The reason for the comparison of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaselineReason {
    /// The caller selected it.
    Requested,
    /// The runs have the same name.
    Name,
    /// The outermost spans of the runs have the same tags.
    Spans,
    /// The runs share most of their functions.
    Functions,
}

/// The run with which another one is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The id of its cluster.
    pub id: ClusterId,
    /// The start of its cluster.
    pub started_at: DateTime<Utc>,
    /// The reason for its selection.
    pub likeness: BaselineReason,
}

impl Baseline {
    /// Returns the number of its cluster as the value of an argument.
    pub(super) fn as_value(&self) -> Value {
        Value::Cluster(self.id.0)
    }

    /// Returns the evidence with its id and the reason for its selection.
    pub(super) fn evidence(&self) -> Evidence {
        let code = match self.likeness {
            BaselineReason::Requested => AnswerCode::BaselineAsRequested,
            BaselineReason::Name => AnswerCode::BaselineByName,
            BaselineReason::Spans => AnswerCode::BaselineBySpans,
            BaselineReason::Functions => AnswerCode::BaselineByFunctions,
        };
        let phrase = code.with("cluster", self.as_value()).with("startedAt", Value::Time(self.started_at));
        Evidence::new(phrase).about(Subject::Cluster(self.id))
    }
}

impl Workload {
    /// Returns the reason why two runs count as the same work, or `None`. If one of them has named spans,
    /// the spans decide, otherwise the functions.
    #[must_use]
    pub fn likeness(&self, other: &Self) -> Option<BaselineReason> {
        let named_tags = |workload: &Self| -> BTreeSet<String> {
            workload.tags.iter().filter(|tag| *tag != NO_SPAN).cloned().collect()
        };
        let (own_tags, other_tags) = (named_tags(self), named_tags(other));
        if !own_tags.is_empty() || !other_tags.is_empty() {
            return (own_tags == other_tags).then_some(BaselineReason::Spans);
        }
        let shared = self.functions.intersection(&other.functions).count();
        let total = self.functions.union(&other.functions).count();
        (shared > 0 && shared * SHARED.1 >= total * SHARED.0).then_some(BaselineReason::Functions)
    }
}

/// Returns the run of the same user with which a run is compared: the last good run with its name, or
/// else the last good run with the same work, as far as this is known. `earlier_runs` starts with the newest
/// run.
#[must_use]
pub fn last_good_run(
    name: Option<&str>,
    workload: &Workload,
    earlier_runs: &[EarlierRun],
    workloads: &BTreeMap<ClusterId, Workload>,
) -> Option<(ClusterId, BaselineReason)> {
    let good_runs = || earlier_runs.iter().filter(|run| run.is_good);
    let has_same_name = |run: &&EarlierRun| name.is_some() && run.name.as_deref() == name;
    if let Some(run) = good_runs().find(has_same_name) {
        return Some((run.id, BaselineReason::Name));
    }
    good_runs().find_map(|run| Some((run.id, workloads.get(&run.id)?.likeness(workload)?)))
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
        let likeness =
            |a: (&[&str], &[&str]), b: (&[&str], &[&str])| workload(a.0, a.1).likeness(&workload(b.0, b.1));
        assert_eq!(likeness((&["etl", "default"], &["a"]), (&["etl"], &["b"])), Some(BaselineReason::Spans));
        assert_eq!(likeness((&["etl"], &["a"]), (&["train"], &["a"])), None);
        assert_eq!(likeness((&["etl"], &["a"]), (&["default"], &["a"])), None);
        assert_eq!(
            likeness((&["default"], &["a", "b"]), (&[], &["b", "a"])),
            Some(BaselineReason::Functions)
        );
        assert_eq!(likeness((&[], &["a", "b"]), (&[], &["a"])), Some(BaselineReason::Functions));
        assert_eq!(likeness((&[], &["a", "b"]), (&[], &["a", "c"])), None);
        assert_eq!(likeness((&[], &[]), (&[], &[])), None);
    }

    #[test]
    fn the_same_name_goes_before_the_same_work_and_failure_before_neither() {
        let run = |id, name: Option<&str>, is_good| EarlierRun {
            id: ClusterId(id),
            name: name.map(str::to_owned),
            is_good,
        };
        let earlier_runs = [
            run(5, Some("etl"), false),
            run(4, None, true),
            run(3, Some("etl"), true),
            run(2, Some("etl"), true),
        ];
        let work = workload(&["etl"], &[]);
        let workloads = earlier_runs.iter().map(|run| (run.id, work.clone())).collect();
        let find_baseline = |name| last_good_run(name, &work, &earlier_runs, &workloads);
        assert_eq!(find_baseline(Some("etl")), Some((ClusterId(3), BaselineReason::Name)));
        assert_eq!(find_baseline(Some("x")), Some((ClusterId(4), BaselineReason::Spans)));
        assert_eq!(find_baseline(None), Some((ClusterId(4), BaselineReason::Spans)));
        assert_eq!(last_good_run(None, &workload(&["x"], &[]), &earlier_runs, &workloads), None);
        assert_eq!(last_good_run(None, &work, &earlier_runs[..1], &workloads), None);
    }
}
