//! The data classes that an account accepts.

use std::collections::BTreeSet;

use entity::{
    data_policy::DataClass,
    json_columns::{ClassReceipt, Receipt},
};
use sea_orm::Iterable;

use super::report;

/// The longest configurable retention, in days.
const MAX_RETENTION_DAYS: i64 = 36_500;

/// The data classes that an account accepts. The default accepts all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    refused: BTreeSet<DataClass>,
}

impl Accepted {
    /// Accepts all classes except `refused`. Required classes are accepted in any case.
    pub fn all_but(refused: impl IntoIterator<Item = DataClass>) -> Self {
        Self { refused: refused.into_iter().filter(|class| !is_required(*class)).collect() }
    }

    /// Returns true if this class is accepted.
    #[must_use]
    pub fn accepts(&self, class: DataClass) -> bool {
        !self.refused.contains(&class)
    }

    /// Returns true if no class is refused.
    #[must_use]
    pub fn accepts_all(&self) -> bool {
        self.refused.is_empty()
    }

    /// Iterates over the accepted classes.
    pub fn classes(&self) -> impl Iterator<Item = DataClass> {
        DataClass::iter().filter(|class| self.accepts(*class))
    }
}

/// Returns a cluster's updated receipt. `reported` holds the numbers of sent and withheld items in the newest
/// report. Only the newest report may update the receipt: items sent since the report before it count as
/// dropped if the account refuses their class.
#[must_use]
pub fn receipt(previous: &Receipt, accepted: &Accepted, reported: &report::Receipt) -> Receipt {
    let mut receipt = previous.clone();
    for (class, counts) in reported {
        let (class, sent) = (DataClass::from(*class), counts.sent.get());
        let previous = previous.0.get(&class).copied().unwrap_or_default();
        // A reporter that replaces another one counts from 0 again.
        let new_items = if sent >= previous.sent { sent - previous.sent } else { sent };
        let dropped = if accepted.accepts(class) { 0 } else { new_items };
        let updated = ClassReceipt {
            sent,
            bytes: counts.bytes.get(),
            withheld: counts.withheld.get(),
            dropped: previous.dropped.saturating_add(dropped),
        };
        receipt.0.insert(class, updated);
    }
    receipt
}

/// Returns true if the class cannot be refused, because there is nothing to show without it.
#[must_use]
pub fn is_required(class: DataClass) -> bool {
    matches!(class, DataClass::Basic | DataClass::DaskErrors)
}

/// The reason for rejecting a data policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The class is required and cannot be refused.
    #[error("this class is required and cannot be refused")]
    Required,
    /// The retention is out of range.
    #[error("must be between 1 and {MAX_RETENTION_DAYS} days")]
    Retention,
}

/// Checks the policy of one class.
///
/// # Errors
/// Returns every violation.
pub fn check(class: DataClass, accepted: bool, retention_days: Option<i64>) -> Result<(), Vec<PolicyError>> {
    let mut errors = Vec::new();
    if !accepted && is_required(class) {
        errors.push(PolicyError::Required);
    }
    if retention_days.is_some_and(|days| !(1..=MAX_RETENTION_DAYS).contains(&days)) {
        errors.push(PolicyError::Retention);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_cannot_be_refused() {
        let accepted = Accepted::all_but([DataClass::Basic, DataClass::Logs]);
        assert!(accepted.accepts(DataClass::Basic) && !accepted.accepts(DataClass::Logs));
        assert_eq!(accepted.classes().count(), 7);
        assert_eq!(
            check(DataClass::DaskErrors, false, Some(0)),
            Err(vec![PolicyError::Required, PolicyError::Retention])
        );
        assert_eq!(check(DataClass::Code, false, Some(1)), Ok(()));
        assert_eq!(check(DataClass::Code, true, Some(36_501)), Err(vec![PolicyError::Retention]));
    }
}
