//! Maintenance of the daily usage totals.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use entity::{Timestamp, ids::AccountId};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    domain::{retention::DAY, slug::Slug},
    error::Chain,
    store::{AccountDay, MAX_DUE, StoreError, SystemStore},
};

/// The maximum number of days of one account per round. The rest follows in the next round, so that an
/// account with many days delays only itself.
const DAYS_OF_ACCOUNT: usize = 16;

/// The duration of an aggregation from which the next one of the same day has to wait.
const LONG_FOLD: Duration = Duration::from_millis(200);

/// The pause before the next aggregation of such a day, as a multiple of the last one's duration. It keeps a
/// twentieth of the time for accounts whose days have very many hours to sum.
const FOLD_PAUSES: u32 = 20;

/// The longest pause before the next aggregation of a day.
const MAX_FOLD_PAUSE: Duration = Duration::from_mins(10);

/// The job that folds hourly usage into daily totals. Each round visits the accounts with pending days,
/// a bounded number of days each.
#[derive(Clone)]
pub struct Rollups {
    store: SystemStore,
    walk: Arc<Mutex<RollupProgress>>,
}

/// The progress of the rounds. It is kept only in memory: after a restart a round starts again and finds
/// the pending days.
#[derive(Default)]
struct RollupProgress {
    /// The last account that the current round visited.
    after: Option<AccountId>,
    /// Accounts with more days than one round folds, and the day from which each continues in this round.
    behind: BTreeMap<AccountId, i64>,
    /// The same for the next round.
    next: BTreeMap<AccountId, i64>,
    /// The days that took long, each with the time of its next aggregation.
    pauses: HashMap<AccountDay, Instant>,
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollupRound {
    /// The number of recomputed days.
    pub days: usize,
    /// The number of days that failed. They stay pending.
    pub failed: usize,
    /// True if days are left that the next round can fold at once.
    pub more: bool,
}

/// The reason why totals were not recomputed.
#[derive(Debug, thiserror::Error)]
pub enum RollupError {
    /// The account does not exist.
    #[error("there is no account '{0}'")]
    NoAccount(Slug),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Rollups {
    /// Returns the job for the usage in `store`.
    #[must_use]
    pub fn new(store: SystemStore) -> Self {
        Self { store, walk: Arc::default() }
    }

    /// Recomputes the totals of days with new hours, a bounded number of days per account, and stops
    /// after `until`. The next round continues where a stopped one ended.
    ///
    /// # Errors
    /// Returns an error if the pending days cannot be loaded.
    #[tracing::instrument(name = "app.usage.round", skip_all)]
    pub async fn round(&self, now: Timestamp, until: Instant) -> Result<RollupRound, StoreError> {
        let today = now.timestamp_millis().div_euclid(DAY);
        let (mut walk, mut folded) = (self.walk.lock().await, RollupRound::default());
        loop {
            let due = self.store.usage_days_due(walk.after).await?;
            let is_last = (due.len() as u64) < MAX_DUE;
            let mut accounts = due.chunk_by(|one, other| one.account_id == other.account_id).peekable();
            while let Some(of_account) = accounts.next() {
                let account = of_account[0].account_id;
                let is_cut = !is_last && accounts.peek().is_none();
                let (days, next) = match walk.behind.get(&account) {
                    Some(from) => self.days_of(account, *from, today).await?,
                    None => first_days(of_account, is_cut),
                };
                for day in days {
                    if !walk.is_pausing(day, Instant::now()) {
                        let begun = Instant::now();
                        folded.add(self.fold(day).await);
                        walk.pause(day, begun.elapsed(), Instant::now());
                    }
                }
                if let Some(next) = next {
                    walk.next.insert(account, next);
                }
                walk.after = Some(account);
                if Instant::now() >= until {
                    return Ok(RollupRound { more: true, ..folded });
                }
            }
            if is_last {
                walk.after = None;
                walk.behind = std::mem::take(&mut walk.next);
                return Ok(RollupRound { more: !walk.behind.is_empty(), ..folded });
            }
        }
    }

    /// Returns the next days of an account that is behind. The days around today come first, because
    /// people look at those.
    async fn days_of(
        &self,
        account: AccountId,
        from: i64,
        today: i64,
    ) -> Result<(Vec<AccountDay>, Option<i64>), StoreError> {
        let due = self.store.usage_days_due_of(account, from).await?;
        let (mut days, next) = first_days(&due, due.len() as u64 == MAX_DUE);
        let recent = self.store.usage_days_due_of(account, today - 1).await?;
        let mut recent: Vec<AccountDay> = recent.into_iter().filter(|due| due.day <= today + 1).collect();
        recent.dedup();
        recent.retain(|day| !days.contains(day));
        days.splice(0..0, recent);
        Ok((days, next))
    }

    /// Recomputes the totals of all days, of one account or of all.
    ///
    /// # Errors
    /// Returns [`RollupError::NoAccount`] if the account does not exist, or an error if the days cannot
    /// be loaded.
    #[tracing::instrument(name = "app.usage.rebuild", skip_all)]
    pub async fn rebuild(&self, account: Option<&Slug>) -> Result<RollupRound, RollupError> {
        let account = match account {
            Some(slug) => {
                let found = self.store.account_by_slug(slug).await?;
                Some(found.ok_or_else(|| RollupError::NoAccount(slug.clone()))?.id)
            }
            None => None,
        };
        Ok(self.fold_all(self.store.usage_days_of(account).await?).await)
    }

    /// Recomputes the totals of these days. A day that fails, for example because of absurd numbers,
    /// does not stop the others.
    async fn fold_all(&self, days: Vec<AccountDay>) -> RollupRound {
        let mut folded = RollupRound::default();
        for day in days {
            folded.add(self.fold(day).await);
        }
        folded
    }

    /// Recomputes the totals of a day. Returns false if it failed.
    async fn fold(&self, day: AccountDay) -> bool {
        let Err(error) = self.store.fold_usage_day(day).await else { return true };
        tracing::warn!(
            account = %day.account_id,
            day = day.day,
            error = %Chain(&error),
            "failed to aggregate the usage of a day"
        );
        false
    }
}

impl RollupRound {
    /// Counts a day. `succeeded` is false if it failed.
    fn add(&mut self, succeeded: bool) {
        if succeeded {
            self.days += 1;
        } else {
            self.failed += 1;
        }
    }
}

impl RollupProgress {
    /// Returns true if the last aggregation of a day took long, and its pause is not over.
    fn is_pausing(&self, day: AccountDay, now: Instant) -> bool {
        self.pauses.get(&day).is_some_and(|end| now < *end)
    }

    /// Begins the pause of a day whose aggregation took `duration`.
    fn pause(&mut self, day: AccountDay, duration: Duration, now: Instant) {
        if duration >= LONG_FOLD {
            self.pauses.retain(|_, end| now < *end);
            self.pauses.insert(day, now + (duration * FOLD_PAUSES).min(MAX_FOLD_PAUSE));
        } else {
            self.pauses.remove(&day);
        }
    }
}

/// Returns the first pending days of an account, and the day from which the next round continues.
/// `is_cut` is true if the list may be incomplete.
fn first_days(due: &[AccountDay], is_cut: bool) -> (Vec<AccountDay>, Option<i64>) {
    let mut days = due.to_vec();
    days.dedup();
    let last = days.last().map(|last| last.day);
    let next = match days.get(DAYS_OF_ACCOUNT) {
        Some(next) => Some(next.day),
        None => last.filter(|_| is_cut).map(|last| last + 1),
    };
    days.truncate(DAYS_OF_ACCOUNT);
    (days, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: AccountDay = AccountDay { account_id: AccountId(uuid::Uuid::from_u128(1)), day: 20_000 };

    #[test]
    fn a_long_aggregation_is_followed_by_a_pause() {
        let (mut progress, now) = (RollupProgress::default(), Instant::now());
        let is_pausing_after =
            |progress: &RollupProgress, seconds| progress.is_pausing(DAY, now + Duration::from_secs(seconds));
        progress.pause(DAY, Duration::from_millis(199), now);
        assert!(!is_pausing_after(&progress, 0));
        progress.pause(DAY, Duration::from_secs(3), now);
        assert!(is_pausing_after(&progress, 59));
        assert!(!is_pausing_after(&progress, 60));
        assert!(!progress.is_pausing(AccountDay { day: 20_001, ..DAY }, now));
        progress.pause(DAY, Duration::from_mins(2), now);
        assert!(is_pausing_after(&progress, 599));
        assert!(!is_pausing_after(&progress, 600));
    }

    #[test]
    fn pauses_that_are_over_are_forgotten() {
        let (mut progress, now) = (RollupProgress::default(), Instant::now());
        progress.pause(DAY, Duration::from_secs(1), now);
        let next = AccountDay { day: DAY.day + 1, ..DAY };
        progress.pause(next, Duration::from_secs(1), now + Duration::from_secs(20));
        assert_eq!(progress.pauses.into_keys().collect::<Vec<_>>(), [next]);
    }
}
