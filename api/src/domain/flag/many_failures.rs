//! Many tasks erred.

use entity::ids::ErrorGroupId;

use super::{Finding, Kind, Rule, Verdict};

/// How far back errors count, in milliseconds.
pub const WINDOW_MS: i64 = 10 * 60 * 1_000;

pub(super) const RULE: Rule = Rule {
    kind: Kind::ManyFailures,
    title: "Many failures",
    text: "10 tasks or more erred within 10 minutes, those that only depend on one of them not counted. `errorGroup` is \
           the commonest error.",
    needs: "the data classes USER_ERRORS and DASK_ERRORS",
    threshold: 10.0,
    clears: 5.0,
    unit: "errors in 10 minutes",
    lasting_seconds: 0,
    say: |value, _| format!("{value} tasks erred within 10 minutes."),
    verdict: |rule, facts, _| {
        let count: i64 = facts.errors.iter().map(|errors| errors.count).sum();
        #[expect(clippy::cast_precision_loss, reason = "nobody has so many errors")]
        let value = count as f64;
        let since = facts.errors.iter().map(|errors| errors.first_at).min();
        match since {
            Some(since) if value >= rule.threshold => {
                let commonest = facts.errors.iter().max_by_key(|errors| (errors.count, errors.group));
                let error_group = commonest.and_then(|errors| errors.group);
                Verdict::Holds(Finding { since, value, error_group, ..Finding::default() })
            }
            Some(_) if value >= rule.clears => Verdict::Unclear,
            _ => Verdict::Over(facts.at),
        }
    },
};

/// Errors of the last minutes that look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCount {
    /// What they have in common.
    pub group: Option<ErrorGroupId>,
    /// How many they are.
    pub count: i64,
    /// When the first of them happened, in epoch milliseconds.
    pub first_at: i64,
}
