//! Alerts in words.

use entity::{
    alert_rule::{Condition, Scope},
    cluster_flag::ClusterFlagKind,
};

use super::Subject;
use crate::domain::{answer::format_duration, flag::Rule};

/// Returns the subject of an alert as the start of a sentence, with the name of the cluster or user if
/// there is one. A rule with a limited scope makes no statement about the clusters outside it.
#[must_use]
pub fn subject_text(subject: Subject, scope: &Scope, name: Option<&str>) -> String {
    let clusters = |all_clusters: &str, is_limited: bool| {
        if is_limited { "The rule's clusters".to_owned() } else { all_clusters.to_owned() }
    };
    match (subject, name) {
        (Subject::Cluster(_) | Subject::Flag(..), Some(name)) => format!("Cluster {name}"),
        (Subject::Cluster(number) | Subject::Flag(number, _), None) => format!("Cluster {number}"),
        (Subject::User(_), user) => {
            let user = user.unwrap_or("a former member");
            format!("{} of {user}", clusters("Clusters", scope.tags.is_some()))
        }
        (Subject::Account, _) => clusters("All clusters", scope.users.is_some() || scope.tags.is_some()),
    }
}

/// Returns the unit of a rule's values.
#[must_use]
pub fn condition_unit(condition: &Condition, kind: Option<ClusterFlagKind>) -> String {
    match condition {
        Condition::Flags(_) => kind.map(|kind| Rule::of(kind).unit.to_owned()).unwrap_or_default(),
        Condition::Failures { .. } => "errors".to_owned(),
        Condition::Cost { currency, .. } => currency.clone(),
        Condition::Idle { .. } => "seconds".to_owned(),
        Condition::QuotaNears { .. } => "percent".to_owned(),
    }
}

/// Describes an alert in one sentence.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a month has fewer than 2^53 seconds")]
pub fn alert_text(
    condition: &Condition,
    kind: Option<ClusterFlagKind>,
    value: f64,
    subject_name: &str,
) -> String {
    match condition {
        Condition::Flags(_) => match kind {
            Some(kind) => format!("{subject_name}: {}", Rule::of(kind).describe(value, None)),
            None => format!("{subject_name}: a flag was raised."),
        },
        Condition::Failures { within_seconds, .. } => {
            let errors = if value > 1.0 { "errors" } else { "error" };
            format!("{subject_name}: {value} {errors} within {}.", format_duration(*within_seconds as f64))
        }
        Condition::Cost { currency, days, .. } => {
            let days = if *days == 1 { "today".to_owned() } else { format!("in {days} days") };
            format!("{subject_name}: {value:.2} {currency} {days}.")
        }
        Condition::Idle { .. } => format!("{subject_name}: idle for {}.", format_duration(value)),
        Condition::QuotaNears { .. } => {
            format!("The account has used {value:.0} % of one of its quotas; data beyond it is rejected.")
        }
    }
}
