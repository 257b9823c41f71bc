//! Rule: the cluster has been idle for long.

use super::{ClusterFlagKind, Finding, Rule, Verdict, seconds};
use crate::domain::answer::format_duration;

/// The default idle timeout, in seconds.
pub const USUAL_TIMEOUT_SECONDS: f64 = 1_200.0;

pub(super) const RULE: Rule = Rule {
    kind: ClusterFlagKind::Idle,
    title: "Idle",
    text: "There has been nothing to do for 20 minutes or more, or for as long as the account's idle policy says, and it \
           is paid for all the same. `answers.whyRunning` tells what keeps it; `setDesiredState` stops it.",
    needs: "nothing",
    threshold: USUAL_TIMEOUT_SECONDS,
    clear_threshold: 0.0,
    unit: "seconds",
    lasting_seconds: 0,
    sentence: |value, _| format!("There was nothing to do for {}.", format_duration(value)),
    verdict: |rule, facts, flag| {
        let Some(since) = facts.idle_since else { return Verdict::Over(facts.at) };
        let value = seconds(facts.at - since);
        if value >= rule.threshold_of(facts.idle_timeout_seconds) {
            Verdict::Holds(Finding { since, value, ..Finding::default() })
        } else {
            // The cluster had work until then. If the timeout was raised instead, the problem is over
            // only now.
            Verdict::Over(if flag.is_some_and(|flag| since <= flag.since) { facts.at } else { since })
        }
    },
};
