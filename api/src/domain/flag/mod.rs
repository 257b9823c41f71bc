//! Detection of problems of clusters: rules that examine the reported values. Each rule has a threshold,
//! a lower value below which the problem is over, and a duration for which the value must last on either
//! side.
//!
//! A rule sees only facts and knows nothing of existing flags. [`decide`] combines both: the same facts
//! lead to the same flags, however often it runs.

mod disk_nearly_full;
mod event_loop_blocked;
mod gil_contention;
mod idle;
mod level;
mod many_failures;
mod memory_pressure;
mod oversized_graph;
mod readings;
mod spilling;
mod unbalanced_workers;
mod version_mismatch;
mod worker_memory_pressure;

use entity::{
    cluster_flag::NOT_ENDED_KEY,
    ids::{ErrorGroupId, FlagId, WorkerId},
};

pub use entity::cluster_flag::ClusterFlagKind;

pub(crate) use self::readings::{CLUSTER_METRICS, WORKER_METRICS};
pub use self::{
    idle::USUAL_TIMEOUT_SECONDS,
    many_failures::{ErrorCount, WINDOW_MS as FAILURES_WITHIN_MS},
    readings::Readings,
    version_mismatch::{Process, mismatched_packages},
};

/// A rule that detects one kind of problem, with its description.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The kind of problem.
    pub kind: ClusterFlagKind,
    /// The kind in a few words.
    pub title: &'static str,
    /// The meaning of the problem and the possible remedies.
    pub text: &'static str,
    /// The measurement without which the rule never applies.
    pub needs: &'static str,
    /// The value from which the problem exists.
    pub threshold: f64,
    /// The value below which the problem is over.
    pub clear_threshold: f64,
    /// The unit of the values.
    pub unit: &'static str,
    /// The time for which the value must last, on either side, in seconds.
    pub lasting_seconds: i64,
    sentence: fn(f64, Option<&str>) -> String,
    verdict: fn(&Self, &FlagFacts, Option<&Flag>) -> Verdict,
}

impl Rule {
    /// Returns the rule of a kind.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "each kind has a rule, see the tests")]
    pub fn of(kind: ClusterFlagKind) -> &'static Self {
        RULES.iter().copied().find(|rule| rule.kind == kind).expect("each kind has a rule, see the tests")
    }

    /// Describes the problem in one sentence.
    #[must_use]
    pub fn describe(&self, value: f64, name: Option<&str>) -> String {
        (self.sentence)(value, name)
    }

    /// Returns the threshold for an account's clusters. The account can configure its own idle timeout.
    #[must_use]
    pub fn threshold_of(&self, idle_timeout_seconds: Option<i64>) -> f64 {
        match (self.kind, idle_timeout_seconds) {
            (ClusterFlagKind::Idle, Some(timeout)) => seconds(timeout.saturating_mul(1_000)),
            _ => self.threshold,
        }
    }
}

/// All rules in display order.
pub const RULES: [&Rule; 11] = [
    &memory_pressure::RULE,
    &worker_memory_pressure::RULE,
    &disk_nearly_full::RULE,
    &spilling::RULE,
    &unbalanced_workers::RULE,
    &gil_contention::RULE,
    &event_loop_blocked::RULE,
    &many_failures::RULE,
    &oversized_graph::RULE,
    &version_mismatch::RULE,
    &idle::RULE,
];

/// The largest number of flags stored for one cluster. Beyond it, the flags that ended first are removed.
pub const MAX_FLAGS: usize = 100;

/// An ended flag reopens if its problem returns within this time, in milliseconds.
const REOPENS_WITHIN: i64 = 10 * 60 * 1_000;

/// The facts about a cluster. Times are by its scheduler's clock, in epoch milliseconds.
#[derive(Clone, Debug, Default)]
pub struct FlagFacts {
    /// The time of the newest report.
    pub at: i64,
    /// True if the cluster closed or became silent at that time.
    pub is_over: bool,
    /// The time since which it has no work. `None` while it has work.
    pub idle_since: Option<i64>,
    /// The account's idle timeout, in seconds. `None` if the account has none.
    pub idle_timeout_seconds: Option<i64>,
    /// The cluster's measurements of the last minutes.
    pub cluster: Readings,
    /// The measurements of the connected workers in the last minutes.
    pub workers: Vec<(WorkerId, Readings)>,
    /// The errors of the last minutes, by error group.
    pub errors: Vec<ErrorCount>,
    /// Packages whose versions differ between the running processes.
    pub mismatches: Vec<String>,
    /// The function with the most tasks.
    pub largest: Option<String>,
}

/// The result of a rule.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    /// The problem exists.
    Holds(Finding),
    /// The problem is over since this time.
    Over(i64),
    /// The value is between the two thresholds, or has not lasted long enough.
    Unclear,
}

/// A problem that a rule found.
#[derive(Clone, Debug, Default, PartialEq)]
struct Finding {
    since: i64,
    value: f64,
    worker: Option<WorkerId>,
    error_group: Option<ErrorGroupId>,
    name: Option<String>,
}

/// A detected problem of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Flag {
    /// The id of the stored flag. `None` if it is new.
    pub id: Option<FlagId>,
    /// The kind of problem.
    pub kind: ClusterFlagKind,
    /// The start of the problem, by the scheduler's clock in epoch milliseconds.
    pub since: i64,
    /// The end of the problem, by the same clock. [`NOT_ENDED_KEY`] while it continues.
    pub ended_key: i64,
    /// The threshold at the time of its detection.
    pub threshold: f64,
    /// The worst value so far.
    pub value: f64,
    /// The worker with the worst value.
    pub worker: Option<WorkerId>,
    /// The error group with the most errors.
    pub error_group: Option<ErrorGroupId>,
    /// The function or packages concerned.
    pub name: Option<String>,
}

impl Flag {
    fn is_open(&self) -> bool {
        self.ended_key == NOT_ENDED_KEY
    }

    fn new(finding: Finding, kind: ClusterFlagKind, threshold: f64) -> Self {
        let Finding { since, value, worker, error_group, name } = finding;
        Self { id: None, kind, since, ended_key: NOT_ENDED_KEY, threshold, value, worker, error_group, name }
    }

    /// Returns the flag with the finding's values if they are worse.
    fn with_worse_values(&self, finding: Finding) -> Self {
        if finding.value <= self.value {
            return self.clone();
        }
        let Finding { value, worker, error_group, name, .. } = finding;
        Self { value, worker, error_group, name, ..self.clone() }
    }
}

/// The changes to the flags of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// New and changed flags.
    pub changed: Vec<Flag>,
    /// Flags to remove because there are too many.
    pub removed: Vec<FlagId>,
}

impl Decision {
    /// Returns true if nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Returns true if the cluster has so many tasks that the function with the most tasks must be loaded.
#[must_use]
pub fn needs_largest_function(facts: &FlagFacts) -> bool {
    matches!((oversized_graph::RULE.verdict)(&oversized_graph::RULE, facts, None), Verdict::Holds(_))
}

/// Returns the changes to the flags of a cluster.
#[must_use]
pub fn decide(facts: &FlagFacts, flags: &[Flag]) -> Decision {
    let mut decision = Decision::default();
    for rule in RULES {
        let flags_of_kind = || flags.iter().filter(|flag| flag.kind == rule.kind);
        let open_flag = flags_of_kind().find(|flag| flag.is_open());
        let threshold = rule.threshold_of(facts.idle_timeout_seconds);
        let mut flag = match ((rule.verdict)(rule, facts, open_flag), open_flag) {
            (Verdict::Holds(finding), Some(flag)) => flag.with_worse_values(finding),
            (Verdict::Holds(finding), None) => {
                let latest = flags_of_kind().max_by_key(|flag| flag.ended_key);
                match latest.filter(|latest| finding.since.saturating_sub(latest.ended_key) <= REOPENS_WITHIN)
                {
                    Some(latest) => Flag { ended_key: NOT_ENDED_KEY, ..latest.with_worse_values(finding) },
                    None => Flag::new(finding, rule.kind, threshold),
                }
            }
            (Verdict::Over(until), Some(flag)) => Flag { ended_key: until.max(flag.since), ..flag.clone() },
            (Verdict::Unclear, Some(flag)) => flag.clone(),
            (Verdict::Over(_) | Verdict::Unclear, None) => continue,
        };
        if facts.is_over && flag.is_open() {
            flag.ended_key = facts.at.max(flag.since);
        }
        if flags.iter().all(|stored| *stored != flag) {
            decision.changed.push(flag);
        }
    }
    let new_flags = decision.changed.iter().filter(|flag| flag.id.is_none()).count();
    let mut ended_flags: Vec<&Flag> = flags.iter().filter(|flag| !flag.is_open()).collect();
    ended_flags.sort_by_key(|flag| flag.ended_key);
    let is_unchanged = |flag: &&&Flag| decision.changed.iter().all(|changed| changed.id != flag.id);
    let too_many = (flags.len() + new_flags).saturating_sub(MAX_FLAGS);
    decision.removed =
        ended_flags.iter().filter(is_unchanged).take(too_many).filter_map(|flag| flag.id).collect();
    decision
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1e3
}

#[cfg(test)]
mod tests;
