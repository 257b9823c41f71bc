//! Rule: many tasks failed.

use entity::ids::ErrorGroupId;

use super::{ClusterFlagKind, Finding, Rule, Verdict};

/// The period in which errors count, in milliseconds.
pub const WINDOW_MS: i64 = 10 * 60 * 1_000;

pub(super) const RULE: Rule = Rule {
    kind: ClusterFlagKind::ManyFailures,
    title: "Many failures",
    text: "10 tasks or more erred within 10 minutes, those that only depend on one of them not counted. `errorGroup` is \
           the commonest error.",
    needs: "the data classes USER_ERRORS and DASK_ERRORS",
    threshold: 10.0,
    clear_threshold: 5.0,
    unit: "errors in 10 minutes",
    lasting_seconds: 0,
    sentence: |value, _| format!("{value} tasks erred within 10 minutes."),
    verdict: |rule, facts, _| {
        let count: i64 = facts.errors.iter().map(|errors| errors.count).sum();
        #[expect(clippy::cast_precision_loss, reason = "counts of errors are far below 2^53")]
        let value = count as f64;
        let since = facts.errors.iter().map(|errors| errors.first_at).min();
        match since {
            Some(since) if value >= rule.threshold => {
                let commonest = facts.errors.iter().max_by_key(|errors| (errors.count, errors.group));
                let error_group = commonest.and_then(|errors| errors.group);
                Verdict::Holds(Finding { since, value, error_group, ..Finding::default() })
            }
            Some(_) if value >= rule.clear_threshold => Verdict::Unclear,
            _ => Verdict::Over(facts.at),
        }
    },
};

/// The errors of one group in the last minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// The error group.
    pub group: Option<ErrorGroupId>,
    /// The number of errors.
    pub count: i64,
    /// The time of the first of them, in epoch milliseconds.
    pub first_at: i64,
}
