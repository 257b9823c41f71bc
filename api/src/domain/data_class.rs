//! Which classes of data an account accepts.

use std::collections::BTreeSet;

use entity::{
    data_policy::DataClass,
    list::{ClassReceipt, Receipt},
};
use sea_orm::Iterable;

use super::report;

/// The longest time anything can be told to be kept.
const MAX_RETENTION_DAYS: i64 = 36_500;

/// The classes of data an account accepts; without a word of the account, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    refused: BTreeSet<DataClass>,
}

impl Accepted {
    /// All but `refused`; what is required is accepted whatever that says.
    pub fn all_but(refused: impl IntoIterator<Item = DataClass>) -> Self {
        Self { refused: refused.into_iter().filter(|class| !is_required(*class)).collect() }
    }

    /// Whether this class is accepted.
    #[must_use]
    pub fn accepts(&self, class: DataClass) -> bool {
        !self.refused.contains(&class)
    }

    /// Whether nothing is refused.
    #[must_use]
    pub fn accepts_all(&self) -> bool {
        self.refused.is_empty()
    }

    /// The classes that are accepted.
    pub fn classes(&self) -> impl Iterator<Item = DataClass> {
        DataClass::iter().filter(|class| self.accepts(*class))
    }
}

/// What became of a cluster's data, once its newest report tells what was sent and kept back until now. Only the newest
/// may: what was sent since the one before it counts as dropped where the account refuses it.
#[must_use]
pub fn receipt(before: &Receipt, accepted: &Accepted, told: &report::Receipt) -> Receipt {
    let mut receipt = before.clone();
    for (class, counts) in told {
        let (class, sent) = (DataClass::from(*class), counts.sent.get());
        let before = before.0.get(&class).copied().unwrap_or_default();
        // A reporter that took another's place counts from 0 again.
        let since = if sent >= before.sent { sent - before.sent } else { sent };
        let dropped = if accepted.accepts(class) { 0 } else { since };
        let after = ClassReceipt {
            sent,
            bytes: counts.bytes.get(),
            withheld: counts.withheld.get(),
            dropped: before.dropped.saturating_add(dropped),
        };
        receipt.0.insert(class, after);
    }
    receipt
}

/// Whether a class can only be accepted: without it there is nothing to show.
#[must_use]
pub fn is_required(class: DataClass) -> bool {
    matches!(class, DataClass::Basic | DataClass::DaskErrors)
}

/// Why an account cannot want this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The class is one of those without which nothing works.
    #[error("this class is required and cannot be refused")]
    Required,
    /// Nothing is kept for such a time.
    #[error("must be between 1 and {MAX_RETENTION_DAYS} days")]
    Retention,
}

/// Whether an account may treat a class so.
///
/// # Errors
/// What is wrong with it, all of it.
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
