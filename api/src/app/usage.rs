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
    progress: Arc<Mutex<RollupProgress>>,
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
    pub has_more: bool,
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
        Self { store, progress: Arc::default() }
    }

    /// Recomputes the totals of days with new hours, a bounded number of days per account, and stops
    /// after `deadline`. The next round continues where a stopped one ended.
    ///
    /// # Errors
    /// Returns an error if the pending days cannot be loaded.
    #[tracing::instrument(name = "app.usage.round", skip_all)]
    pub async fn run_round(&self, now: Timestamp, deadline: Instant) -> Result<RollupRound, StoreError> {
        let today = now.timestamp_millis().div_euclid(DAY);
        let (mut progress, mut round) = (self.progress.lock().await, RollupRound::default());
        loop {
            let pending_days = self.store.usage_days_due(progress.after).await?;
            let is_last = (pending_days.len() as u64) < MAX_DUE;
            let mut accounts = pending_days.chunk_by(|a, b| a.account_id == b.account_id).peekable();
            while let Some(account_days) = accounts.next() {
                let account = account_days[0].account_id;
                let is_cut = !is_last && accounts.peek().is_none();
                let (days, next_day) = match progress.behind.get(&account) {
                    Some(from) => self.days_of(account, *from, today).await?,
                    None => first_days(account_days, is_cut),
                };
                for day in days {
                    if !progress.is_pausing(day, Instant::now()) {
                        let started = Instant::now();
                        round.add(self.fold(day).await);
                        progress.pause(day, started.elapsed(), Instant::now());
                    }
                }
                if let Some(next_day) = next_day {
                    progress.next.insert(account, next_day);
                }
                progress.after = Some(account);
                if Instant::now() >= deadline {
                    return Ok(RollupRound { has_more: true, ..round });
                }
            }
            if is_last {
                progress.after = None;
                progress.behind = std::mem::take(&mut progress.next);
                return Ok(RollupRound { has_more: !progress.behind.is_empty(), ..round });
            }
        }
    }

    /// Returns the next days of an account with a backlog. The days around today come first, because users
    /// view those.
    async fn days_of(
        &self,
        account: AccountId,
        from: i64,
        today: i64,
    ) -> Result<(Vec<AccountDay>, Option<i64>), StoreError> {
        let pending_days = self.store.usage_days_due_of(account, from).await?;
        let (mut days, next_day) = first_days(&pending_days, pending_days.len() as u64 == MAX_DUE);
        let recent = self.store.usage_days_due_of(account, today - 1).await?;
        let mut recent: Vec<AccountDay> =
            recent.into_iter().filter(|pending| pending.day <= today + 1).collect();
        recent.dedup();
        recent.retain(|day| !days.contains(day));
        days.splice(0..0, recent);
        Ok((days, next_day))
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
                let account = self.store.account_by_slug(slug).await?;
                Some(account.ok_or_else(|| RollupError::NoAccount(slug.clone()))?.id)
            }
            None => None,
        };
        Ok(self.fold_all(self.store.usage_days_of(account).await?).await)
    }

    /// Recomputes the totals of these days. A day that fails, for example because of absurd numbers,
    /// does not stop the others.
    async fn fold_all(&self, days: Vec<AccountDay>) -> RollupRound {
        let mut round = RollupRound::default();
        for day in days {
            round.add(self.fold(day).await);
        }
        round
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
fn first_days(pending_days: &[AccountDay], is_cut: bool) -> (Vec<AccountDay>, Option<i64>) {
    let mut days = pending_days.to_vec();
    days.dedup();
    let last_day = days.last().map(|day| day.day);
    let next_day = match days.get(DAYS_OF_ACCOUNT) {
        Some(next_day) => Some(next_day.day),
        None => last_day.filter(|_| is_cut).map(|last_day| last_day + 1),
    };
    days.truncate(DAYS_OF_ACCOUNT);
    (days, next_day)
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
        let next_day = AccountDay { day: DAY.day + 1, ..DAY };
        progress.pause(next_day, Duration::from_secs(1), now + Duration::from_secs(20));
        assert_eq!(progress.pauses.into_keys().collect::<Vec<_>>(), [next_day]);
    }
}
