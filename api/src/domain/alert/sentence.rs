//! Alerts in words.

use entity::{alert_rule::Condition, cluster_flag::Kind, ids::ClusterId};

use crate::domain::{answer::duration, flag::Rule};

/// What the values of a rule count.
#[must_use]
pub fn unit(condition: &Condition, kind: Option<Kind>) -> String {
    match condition {
        Condition::Flags(_) => kind.map(|kind| Rule::of(kind).unit.to_owned()).unwrap_or_default(),
        Condition::Failures { .. } => "errors".to_owned(),
        Condition::Cost { currency, .. } => currency.clone(),
        Condition::Idle { .. } => "seconds".to_owned(),
    }
}

/// What is so, of whom, in one sentence.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a month has not so many seconds")]
pub fn sentence(
    condition: &Condition,
    kind: Option<Kind>,
    value: f64,
    cluster: Option<&(ClusterId, Option<String>)>,
    user: Option<&str>,
) -> String {
    let whose = match (cluster, user) {
        (Some((_, Some(name))), _) => format!("Cluster {name}"),
        (Some((number, None)), _) => format!("Cluster {number}"),
        (None, Some(user)) => format!("Clusters of {user}"),
        (None, None) => "All clusters".to_owned(),
    };
    match condition {
        Condition::Flags(_) => match kind {
            Some(kind) => format!("{whose}: {}", Rule::of(kind).say(value, None)),
            None => format!("{whose}: something was noticed."),
        },
        Condition::Failures { within_seconds, .. } => {
            let errors = if value > 1.0 { "errors" } else { "error" };
            format!("{whose}: {value} {errors} within {}.", duration(*within_seconds as f64))
        }
        Condition::Cost { currency, days, .. } => {
            let days = if *days == 1 { "today".to_owned() } else { format!("in {days} days") };
            format!("{whose}: {value:.2} {currency} {days}.")
        }
        Condition::Idle { .. } => format!("{whose}: nothing to do for {}.", duration(value)),
    }
}
