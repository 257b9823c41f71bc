//! Alerts in words.

use entity::{
    alert_rule::{Condition, Scope},
    cluster_flag::Kind,
};

use super::Subject;
use crate::domain::{answer::duration, flag::Rule};

/// Whose clusters something is counted of, as a sentence begins, with the name of the cluster or of the user if there is one.
/// A rule that is about some clusters says nothing of the others.
#[must_use]
pub fn whose(subject: Subject, scope: &Scope, name: Option<&str>) -> String {
    let clusters = |of_all: &str, of_some: bool| {
        if of_some { "The rule's clusters".to_owned() } else { of_all.to_owned() }
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
pub fn sentence(condition: &Condition, kind: Option<Kind>, value: f64, whose: &str) -> String {
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
