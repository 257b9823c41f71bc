//! Keeping the sums of usage by day up to date.

use crate::{
    domain::slug::Slug,
    error::Chain,
    store::{AccountDay, MAX_DUE, StoreError, SystemStore},
};

/// Folds hours of usage into days.
#[derive(Clone)]
pub struct Rollups {
    store: SystemStore,
}

/// What a round of folding did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Days whose sums were made again.
    pub days: usize,
    /// Days for which that failed; they stay due.
    pub failed: usize,
}

/// Why sums were not made again.
#[derive(Debug, thiserror::Error)]
pub enum RollupError {
    /// There is no such account.
    #[error("there is no account '{0}'")]
    NoAccount(Slug),
    /// The store did not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Rollups {
    /// Hours and days are those of `store`.
    #[must_use]
    pub fn new(store: SystemStore) -> Self {
        Self { store }
    }

    /// Makes the sums of all days again that have hours they do not include yet.
    ///
    /// # Errors
    /// When it cannot be found out which days these are.
    #[tracing::instrument(name = "app.usage.fold", skip_all)]
    pub async fn fold(&self) -> Result<Folded, StoreError> {
        let (mut folded, mut after) = (Folded::default(), None);
        loop {
            // Each day once, so that those that cannot be folded do not stand before the others.
            let due = self.store.usage_days_due(after).await?;
            let more = due.len() as u64 == MAX_DUE;
            after = due.last().copied();
            let part = self.fold_all(due).await;
            folded.days += part.days;
            folded.failed += part.failed;
            if !more {
                return Ok(folded);
            }
        }
    }

    /// Makes the sums of all days again, of one account or of all.
    ///
    /// # Errors
    /// [`RollupError::NoAccount`], and when it cannot be found out which days there are.
    #[tracing::instrument(name = "app.usage.rebuild", skip_all)]
    pub async fn rebuild(&self, account: Option<&Slug>) -> Result<Folded, RollupError> {
        let account = match account {
            Some(slug) => {
                let found = self.store.account_by_slug(slug).await?;
                Some(found.ok_or_else(|| RollupError::NoAccount(slug.clone()))?.id)
            }
            None => None,
        };
        Ok(self.fold_all(self.store.usage_days_of(account).await?).await)
    }

    /// A day that cannot be folded, say because its numbers are absurd, must not keep the others from it.
    async fn fold_all(&self, days: Vec<AccountDay>) -> Folded {
        let mut folded = Folded::default();
        for day in days {
            match self.store.fold_usage_day(day).await {
                Ok(()) => folded.days += 1,
                Err(error) => {
                    folded.failed += 1;
                    tracing::warn!(account = %day.account_id, day = day.day, error = %Chain(&error), "usage of a day was not folded");
                }
            }
        }
        folded
    }
}
