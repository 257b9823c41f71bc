//! What is noticed of clusters without anybody asking: rules that look at what was reported, each with the number from
//! which it holds, a lower one below which it does not any more, and how long either has to last.
//!
//! A rule sees facts alone, and knows nothing of what was noticed before. What becomes of both, [`decide`] says: the same
//! facts lead to the same flags however often they are looked at.

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
    cluster_flag::LASTS,
    ids::{ErrorGroupId, FlagId, WorkerId},
};

pub use entity::cluster_flag::Kind;

pub(crate) use self::readings::{OF_CLUSTERS, OF_WORKERS};
pub use self::{
    idle::USUAL_TIMEOUT_SECONDS,
    many_failures::{ErrorCount, WINDOW_MS as FAILURES_WITHIN_MS},
    readings::Readings,
    version_mismatch::{Process, differing},
};

/// When something is noticed, and what to make of it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// What is noticed.
    pub kind: Kind,
    /// The same in a few words.
    pub title: &'static str,
    /// What it means and what can be done about it.
    pub text: &'static str,
    /// What has to be measured, without which it is never noticed.
    pub needs: &'static str,
    /// The value from which on it is noticed.
    pub threshold: f64,
    /// The value below which it is over.
    pub clears: f64,
    /// What the values count.
    pub unit: &'static str,
    /// How long the value has to be there, on either side, in seconds.
    pub lasting_seconds: i64,
    say: fn(f64, Option<&str>) -> String,
    verdict: fn(&Self, &Facts, Option<&Flag>) -> Verdict,
}

impl Rule {
    /// The rule of a kind.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "each kind has a rule, see the tests")]
    pub fn of(kind: Kind) -> &'static Self {
        RULES.iter().copied().find(|rule| rule.kind == kind).expect("each kind has a rule, see the tests")
    }

    /// What was noticed, in one sentence.
    #[must_use]
    pub fn say(&self, value: f64, name: Option<&str>) -> String {
        (self.say)(value, name)
    }

    /// The threshold for clusters of an account, which may have said how long is too long.
    #[must_use]
    pub fn threshold_of(&self, idle_timeout_seconds: Option<i64>) -> f64 {
        match (self.kind, idle_timeout_seconds) {
            (Kind::Idle, Some(timeout)) => seconds(timeout.saturating_mul(1_000)),
            _ => self.threshold,
        }
    }
}

/// All rules, in the order in which they are shown.
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

/// Flags of one cluster that are kept at the most; of more, those that ended first go.
pub const MAX_FLAGS: usize = 100;

/// What comes again within so many milliseconds has not been over.
const REOPENS_WITHIN: i64 = 10 * 60 * 1_000;

/// What is known of a cluster, by its scheduler's clock in epoch milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The last moment it told of.
    pub at: i64,
    /// Whether it closed then, or was not heard of any more.
    pub is_over: bool,
    /// Since when it has had nothing to do, if it has not.
    pub idle_since: Option<i64>,
    /// How long without work is too long to its account, in seconds, if it says so.
    pub idle_timeout_seconds: Option<i64>,
    /// What was measured of it as a whole in the last minutes.
    pub cluster: Readings,
    /// The same of the workers that are there.
    pub workers: Vec<(WorkerId, Readings)>,
    /// Errors of the last minutes, by what they have in common.
    pub errors: Vec<ErrorCount>,
    /// Packages of which not all processes that are there have the same version.
    pub mismatches: Vec<String>,
    /// The function that most of its tasks run.
    pub largest: Option<String>,
}

/// What a rule makes of facts.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    /// It is so.
    Holds(Finding),
    /// It is not so, since this moment.
    Over(i64),
    /// It is between the two, or not for long enough.
    Unclear,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
struct Finding {
    since: i64,
    value: f64,
    worker: Option<WorkerId>,
    error_group: Option<ErrorGroupId>,
    name: Option<String>,
}

/// Something that was noticed.
#[derive(Clone, Debug, PartialEq)]
pub struct Flag {
    /// Which one it is; none if it is new.
    pub id: Option<FlagId>,
    /// What was noticed.
    pub kind: Kind,
    /// Since when it is so, by the scheduler's clock in epoch milliseconds.
    pub since: i64,
    /// Until when it was so; [`LASTS`] while it is.
    pub ended_key: i64,
    /// From which value on it was noticed.
    pub threshold: f64,
    /// The worst value since then.
    pub value: f64,
    /// The worker that was worst.
    pub worker: Option<WorkerId>,
    /// The errors that were most.
    pub error_group: Option<ErrorGroupId>,
    /// The function or packages it is about.
    pub name: Option<String>,
}

impl Flag {
    fn lasts(&self) -> bool {
        self.ended_key == LASTS
    }

    fn new(finding: Finding, kind: Kind, threshold: f64) -> Self {
        let Finding { since, value, worker, error_group, name } = finding;
        Self { id: None, kind, since, ended_key: LASTS, threshold, value, worker, error_group, name }
    }

    /// The same as far as it is worse now.
    fn worsened(&self, finding: Finding) -> Self {
        if finding.value <= self.value {
            return self.clone();
        }
        let Finding { value, worker, error_group, name, .. } = finding;
        Self { value, worker, error_group, name, ..self.clone() }
    }
}

/// What becomes of the flags of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// Flags that are new or not as they were.
    pub changed: Vec<Flag>,
    /// Flags that are given up, because there are too many.
    pub removed: Vec<FlagId>,
}

impl Decision {
    /// Whether all stays as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Whether the cluster is worth being asked which function most of its tasks run.
#[must_use]
pub fn holds_many_tasks(facts: &Facts) -> bool {
    matches!((oversized_graph::RULE.verdict)(&oversized_graph::RULE, facts, None), Verdict::Holds(_))
}

/// What becomes of the flags a cluster has.
#[must_use]
pub fn decide(facts: &Facts, known: &[Flag]) -> Decision {
    let mut decision = Decision::default();
    for rule in RULES {
        let of_kind = || known.iter().filter(|flag| flag.kind == rule.kind);
        let lasting = of_kind().find(|flag| flag.lasts());
        let threshold = rule.threshold_of(facts.idle_timeout_seconds);
        let mut flag = match ((rule.verdict)(rule, facts, lasting), lasting) {
            (Verdict::Holds(finding), Some(flag)) => flag.worsened(finding),
            (Verdict::Holds(finding), None) => {
                let last = of_kind().max_by_key(|flag| flag.ended_key);
                match last.filter(|last| finding.since.saturating_sub(last.ended_key) <= REOPENS_WITHIN) {
                    Some(last) => Flag { ended_key: LASTS, ..last.worsened(finding) },
                    None => Flag::new(finding, rule.kind, threshold),
                }
            }
            (Verdict::Over(until), Some(flag)) => Flag { ended_key: until.max(flag.since), ..flag.clone() },
            (Verdict::Unclear, Some(flag)) => flag.clone(),
            (Verdict::Over(_) | Verdict::Unclear, None) => continue,
        };
        if facts.is_over && flag.lasts() {
            flag.ended_key = facts.at.max(flag.since);
        }
        if known.iter().all(|known| *known != flag) {
            decision.changed.push(flag);
        }
    }
    let new = decision.changed.iter().filter(|flag| flag.id.is_none()).count();
    let mut ended: Vec<&Flag> = known.iter().filter(|flag| !flag.lasts()).collect();
    ended.sort_by_key(|flag| flag.ended_key);
    let stays = |flag: &&&Flag| decision.changed.iter().all(|changed| changed.id != flag.id);
    let too_many = (known.len() + new).saturating_sub(MAX_FLAGS);
    decision.removed = ended.iter().filter(stays).take(too_many).filter_map(|flag| flag.id).collect();
    decision
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1e3
}

#[cfg(test)]
mod tests;
