//! Deletes rows that are older than their account keeps them.
//!
//! A round surveys all accounts first and deletes afterwards. It deletes nothing if the clock looks wrong,
//! and nothing of an account whose number of due rows looks wrong: deleted rows do not come back. Each
//! account is judged alone, so that none stops the deletion of another one's rows.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use chrono::TimeDelta;
use entity::{
    Timestamp,
    data_policy::DataClass,
    ids::AccountId,
    retention_watch::{self, Hold},
};

use super::{BATCH_PAUSE, Jobs, Progress, ROUND_BUDGET, partitions};
use crate::{
    clock::Clock,
    domain::{
        retention::{
            AccountRetention, DAY, RULES, Rule, cutoff, decayed_round_size, default_days, is_far_ahead,
            max_rows_of_account,
        },
        scheduler_token::removal_cutoff,
    },
    error::Chain,
    store::{SCHEDULER_TOKEN_BATCH, StoreError, maintenance::retention::BATCH},
};

/// Accounts that one statement reads.
const ACCOUNT_BATCH: u64 = 200;

/// The maximum number of batches of one table that a piece deletes of one account.
const BATCHES: u32 = 5;

/// The maximum number of rows that the survey counts per account and rule. More rows count as this many.
const MAX_COUNTED_ROWS: u64 = 2_000_000;

/// A round in progress. Only memory holds it: after a restart the round begins again, and rows that are
/// deleted are not counted twice.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// The time at which the round began.
    started_at: Option<Timestamp>,
    /// The last account that the survey read.
    last_account: Option<AccountId>,
    /// True after the survey has read all accounts.
    is_surveyed: bool,
    /// The judgement of the numbers of due rows. `None` until they are judged.
    judgement: Option<Judgement>,
    /// The longest time that an account keeps each class of data, in days.
    longest: BTreeMap<DataClass, i64>,
    /// Accounts with rows to delete. They are served in turn.
    queue: VecDeque<DueAccount>,
    /// The last error. The round goes on with other accounts and fails at its end.
    last_error: Option<StoreError>,
}

/// The judgement of the numbers of due rows.
#[derive(Clone, Copy, Debug)]
struct Judgement {
    /// True if an operator's confirmation accepted any number.
    is_confirmed: bool,
    /// The largest number of rows to delete of one account.
    largest: u64,
}

/// An account with rows to delete.
#[derive(Debug)]
struct DueAccount {
    account: AccountId,
    retention: AccountRetention,
    /// The number of due rows that the survey counted.
    rows: u64,
    /// The judgement of this number. `None` until it is judged.
    verdict: Option<Verdict>,
}

/// The judgement of an account's number of due rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The rows are deleted.
    Plausible,
    /// An operator has to confirm the number.
    Held,
    /// The number could not be judged, and nothing is deleted in this round.
    Unknown,
}

/// Times that confirm the server's clock, in addition to stored ones.
pub(super) struct TimeEvidence {
    /// The time of this server's start: by the clock, and by the monotonic clock.
    start: (Timestamp, Instant),
    /// The last confirmed time, and its monotonic time. The monotonic time that passes after it is
    /// confirmed as well.
    trusted: Mutex<Option<(Timestamp, Instant)>>,
}

impl TimeEvidence {
    pub(super) fn new(clock: &dyn Clock) -> Self {
        Self { start: (clock.timestamp(), clock.instant()), trusted: Mutex::new(None) }
    }

    fn trusted(&self, now: Instant) -> Option<Timestamp> {
        let trusted = *self.trusted.lock().unwrap_or_else(PoisonError::into_inner);
        advance(trusted?, now)
    }

    /// Returns the start plus the time since then, if the clock was right at the start as far as
    /// `latest` shows.
    fn since_start(&self, latest: Option<Timestamp>, now: Instant) -> Option<Timestamp> {
        latest.filter(|latest| !is_far_ahead(self.start.0, *latest)).and_then(|_| advance(self.start, now))
    }

    fn trust(&self, time: Timestamp, instant: Instant) {
        *self.trusted.lock().unwrap_or_else(PoisonError::into_inner) = Some((time, instant));
    }
}

/// Returns `time` plus the monotonic time that passed since `instant`.
fn advance((time, instant): (Timestamp, Instant), now: Instant) -> Option<Timestamp> {
    let elapsed = TimeDelta::from_std(now.saturating_duration_since(instant)).ok()?;
    Some(time.0.checked_add_signed(elapsed)?.into())
}

/// Returns the latest of some times.
fn latest<const TIMES: usize>(times: [Option<Timestamp>; TIMES]) -> Option<Timestamp> {
    times.into_iter().flatten().max_by_key(|time| time.timestamp_millis())
}

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let mut round = jobs.retention.lock().await;
    let (mut progress, started) = (Progress::default(), Instant::now());
    let is_out_of_time = || started.elapsed() >= ROUND_BUDGET || jobs.is_stopping();
    let watch = check_clock(jobs).await?;
    if watch.hold == Some(Hold::Clock) {
        *round = Round::default();
        return Ok(progress);
    }
    let started_at = *round.started_at.get_or_insert(jobs.now());
    // Rows that became due since then were not overdue, however many they are.
    let reference_time = watch.completed_at.unwrap_or(started_at);
    while !round.is_surveyed {
        if is_out_of_time() {
            progress.has_more = true;
            return Ok(progress);
        }
        round.survey_page(jobs, reference_time, &is_out_of_time).await?;
    }
    if round.judgement.is_none() {
        if !round.judge(jobs, &watch, &is_out_of_time).await {
            progress.has_more = true;
            return Ok(progress);
        }
        // A partition holds rows of all accounts, so it stays while those of one are retention.
        if round.hold_implausible(jobs, &watch).await? {
            round.drop_partitions(jobs, &mut progress).await;
        }
    }
    // One piece of each account, so that none waits for all of another.
    for _ in 0..round.queue.len() {
        let Some(due) = round.queue.pop_front() else { break };
        round.delete_piece(jobs, due, &mut progress).await;
        if is_out_of_time() {
            break;
        }
    }
    if !round.queue.is_empty() {
        progress.has_more = true;
        return Ok(progress);
    }
    match jobs.system().remove_scheduler_tokens(removal_cutoff(jobs.now())).await {
        Ok(removed) => {
            progress.add("api_tokens", removed);
            progress.has_more |= removed == SCHEDULER_TOKEN_BATCH;
        }
        Err(error) => {
            tracing::warn!(error = %Chain(&error), "failed to delete expired scheduler tokens");
            round.last_error = Some(error);
        }
    }
    let finished_round = std::mem::take(&mut *round);
    if let Some(judgement) = finished_round.judgement {
        record_end(jobs, judgement, finished_round.last_error.is_none().then_some(started_at)).await?;
    }
    finished_round.last_error.map_or(Ok(progress), Err)
}

impl Round {
    /// Finds the rows that are due in the next accounts, until `is_out_of_time`.
    async fn survey_page(
        &mut self,
        jobs: &Jobs,
        reference_time: Timestamp,
        is_out_of_time: impl Fn() -> bool,
    ) -> Result<(), StoreError> {
        let accounts = jobs.system().retention_after(self.last_account, ACCOUNT_BATCH).await?;
        let is_last = (accounts.len() as u64) < ACCOUNT_BATCH;
        for (account, retention) in accounts {
            if is_out_of_time() {
                return Ok(());
            }
            for rule in &RULES {
                let longest = self.longest.entry(rule.class).or_default();
                *longest = retention.days(rule.class).max(*longest);
            }
            match count_due(jobs, account, &retention, reference_time).await {
                Ok(None) => {}
                Ok(Some(rows)) => {
                    self.queue.push_back(DueAccount { account, retention, rows, verdict: None });
                }
                // The error of one account must not keep other accounts' rows.
                Err(error) => self.fail(account, error),
            }
            self.last_account = Some(account);
        }
        self.is_surveyed = is_last;
        Ok(())
    }

    /// Judges the numbers of due rows until `is_out_of_time`. Returns true after all have been judged. An
    /// operator's confirmation accepts any number.
    async fn judge(
        &mut self,
        jobs: &Jobs,
        watch: &retention_watch::Model,
        is_out_of_time: impl Fn() -> bool,
    ) -> bool {
        let usual = watch.usual_rows.unsigned_abs();
        let mut failures = Vec::new();
        for due in self.queue.iter_mut().filter(|due| due.verdict.is_none()) {
            if watch.confirmed || due.rows <= max_rows_of_account(usual) {
                due.verdict = Some(Verdict::Plausible);
                continue;
            }
            if is_out_of_time() {
                break;
            }
            due.verdict = Some(match count_all_rows(jobs, due.account).await {
                Ok(all) if due.rows <= all / 2 => Verdict::Plausible,
                Ok(_) => {
                    tracing::warn!(
                        account = %due.account,
                        due_rows = due.rows,
                        usual_rows = usual,
                        "far more rows of an account are due for deletion than usual: none of them is deleted; \
                         see `galvo doctor`, and run `galvo retention confirm` if the number is right"
                    );
                    Verdict::Held
                }
                // The error of one account must not keep other accounts' rows.
                Err(error) => {
                    failures.push((due.account, error));
                    Verdict::Unknown
                }
            });
        }
        for (account, error) in failures {
            self.fail(account, error);
        }
        self.queue.iter().all(|due| due.verdict.is_some())
    }

    /// Removes the accounts whose number of due rows is not plausible from the queue, and records the hold.
    /// Returns true if no account was removed.
    async fn hold_implausible(
        &mut self,
        jobs: &Jobs,
        watch: &retention_watch::Model,
    ) -> Result<bool, StoreError> {
        let implausible = self.queue.iter().filter(|due| due.verdict == Some(Verdict::Held));
        let held_rows = implausible.fold(0_u64, |sum, due| sum.saturating_add(due.rows));
        let hold = (held_rows > 0).then_some(Hold::Amount);
        let due_rows = i64::try_from(held_rows).unwrap_or(i64::MAX);
        record(jobs, Some(watch), retention_watch::Model { hold, due_rows, ..watch.clone() }).await?;
        let queue_length = self.queue.len();
        self.queue.retain(|due| due.verdict == Some(Verdict::Plausible));
        let largest = self.queue.iter().map(|due| due.rows).max().unwrap_or(0);
        self.judgement = Some(Judgement { is_confirmed: watch.confirmed, largest });
        Ok(self.queue.len() == queue_length)
    }

    /// Drops partitions whose rows no account keeps.
    async fn drop_partitions(&mut self, jobs: &Jobs, progress: &mut Progress) {
        let longest = |class: DataClass| self.longest.get(&class).copied().unwrap_or(default_days(class));
        match partitions::drop_old(jobs, longest).await {
            Ok(dropped) => progress.add("partitions_dropped", dropped),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "failed to drop old partitions");
                self.last_error = Some(error);
            }
        }
    }

    /// Deletes a bounded number of one account's rows.
    async fn delete_piece(&mut self, jobs: &Jobs, due: DueAccount, progress: &mut Progress) {
        match delete_due(jobs, due.account, &due.retention, progress).await {
            Ok(true) => self.queue.push_back(due),
            Ok(false) => {}
            // The error of one account must not keep other accounts' rows.
            Err(error) => self.fail(due.account, error),
        }
    }

    fn fail(&mut self, account: AccountId, error: StoreError) {
        tracing::warn!(%account, error = %Chain(&error), "failed to delete rows past retention");
        self.last_error = Some(error);
    }
}

/// The rules with the time before which the account's rows are due.
fn rules_of(retention: &AccountRetention, now: Timestamp) -> Vec<(&'static Rule, i64)> {
    let days = |rule: &Rule| rule.days(Some(retention.days(rule.class)));
    RULES.iter().map(|rule| (rule, cutoff(now, days(rule)))).collect()
}

/// The time after which rows state a time to come. They are due by their arrival.
fn future_cutoff(now: Timestamp) -> i64 {
    now.timestamp_millis().saturating_add(DAY)
}

/// Returns the number of rows that are due in an account, and were due at `reference_time`. `None` if none
/// are due. Rows that state a time to come, and rows that were due when they arrived, do not count: no
/// clock makes them many.
async fn count_due(
    jobs: &Jobs,
    account: AccountId,
    retention: &AccountRetention,
    reference_time: Timestamp,
) -> Result<Option<u64>, StoreError> {
    let (store, now) = (jobs.system(), jobs.now());
    let (rules, reference_rules) = (rules_of(retention, now), rules_of(retention, reference_time));
    let mut rows = None;
    for index in store.rules_due(account, &rules).await? {
        let (rule, cutoff) = reference_rules[index];
        let count = store.count_older(rule, account, cutoff, reference_time, MAX_COUNTED_ROWS).await?;
        rows = Some(rows.unwrap_or(0) + count);
    }
    if rows.is_none() && !store.rules_ahead(account, &rules, future_cutoff(now)).await?.is_empty() {
        rows = Some(0);
    }
    Ok(rows)
}

/// Deletes a bounded number of an account's rows. Returns true if rows are left.
async fn delete_due(
    jobs: &Jobs,
    account: AccountId,
    retention: &AccountRetention,
    progress: &mut Progress,
) -> Result<bool, StoreError> {
    let (store, now) = (jobs.system(), jobs.now());
    let rules = rules_of(retention, now);
    let (mut has_more, mut failure) = (false, None);
    for index in store.rules_due(account, &rules).await? {
        let (rule, cutoff) = rules[index];
        for batch in 1.. {
            match store.remove_older(rule, account, cutoff).await {
                Ok(removed) => {
                    progress.add(rule.table, removed);
                    if removed < BATCH {
                        break;
                    }
                }
                // The error of one rule must not keep the rows of others.
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
            if batch == BATCHES || jobs.sleep_or_stop(BATCH_PAUSE).await {
                has_more = true;
                break;
            }
        }
    }
    let ahead = future_cutoff(now);
    for index in store.rules_ahead(account, &rules, ahead).await? {
        let (rule, cutoff) = rules[index];
        let removed = store.remove_ahead(rule, account, cutoff, ahead).await?;
        progress.add(rule.table, removed);
        has_more |= removed == BATCH;
    }
    failure.map_or(Ok(has_more), Err)
}

/// Compares the clock with the times that reports and running servers confirm. Records and returns the
/// result.
async fn check_clock(jobs: &Jobs) -> Result<retention_watch::Model, StoreError> {
    let (store, now, instant) = (jobs.system(), jobs.now(), jobs.clock.instant());
    let stored = store.retention_watch().await?;
    let confirm = |reported: Option<Timestamp>| {
        let stored = stored.as_ref().map(|watch| watch.trusted_at);
        let confirmed = latest([reported, stored, jobs.time_evidence.trusted(instant)]);
        latest([confirmed, jobs.time_evidence.since_start(confirmed, instant)])
    };
    let mut confirmed = confirm(None);
    // Reading the newest report reads all clusters, so the job does it only when nothing else confirms
    // the clock.
    if confirmed.is_none_or(|confirmed| is_far_ahead(now, confirmed)) {
        confirmed = confirm(store.latest_reported_time().await?);
    }
    let is_confirmed = stored.as_ref().is_some_and(|watch| watch.confirmed);
    // Without any report, a wrong clock can delete nothing.
    let trusted_at = confirmed.filter(|_| !is_confirmed).unwrap_or(now);
    jobs.time_evidence.trust(trusted_at, instant);
    let previous_hold = stored.as_ref().and_then(|watch| watch.hold);
    let hold = if is_far_ahead(now, trusted_at) {
        let days = (now.timestamp_millis() - trusted_at.timestamp_millis()) / DAY;
        tracing::warn!(
            days,
            "the clock is far ahead of the newest report: nothing is deleted; see `galvo doctor`, and run \
             `galvo retention confirm` if the clock is right"
        );
        Some(Hold::Clock)
    } else {
        // The survey ends a hold for the amount.
        previous_hold.filter(|hold| *hold == Hold::Amount)
    };
    let current = stored.clone().unwrap_or(retention_watch::Model {
        id: 1,
        trusted_at,
        usual_rows: 0,
        hold: None,
        held_at: None,
        due_rows: 0,
        confirmed: false,
        completed_at: None,
    });
    record(jobs, stored.as_ref(), retention_watch::Model { trusted_at, hold, ..current }).await
}

/// Stores `updated` if it differs from `previous`, with the time of a hold that begins or ends.
async fn record(
    jobs: &Jobs,
    previous: Option<&retention_watch::Model>,
    mut updated: retention_watch::Model,
) -> Result<retention_watch::Model, StoreError> {
    updated.held_at = updated.hold.and(previous.and_then(|previous| previous.held_at).or(Some(jobs.now())));
    jobs.metrics.set_retention_held(updated.hold.is_some());
    if previous != Some(&updated) {
        jobs.system().record_retention_watch(updated.clone()).await?;
    }
    Ok(updated)
}

/// Returns the number of an account's rows in all tables with retention, counted up to a limit per table.
async fn count_all_rows(jobs: &Jobs, account: AccountId) -> Result<u64, StoreError> {
    let mut tables: Vec<&'static str> = RULES.iter().map(|rule| rule.table).collect();
    tables.sort_unstable();
    tables.dedup();
    let mut all = 0_u64;
    for table in tables {
        all += jobs.system().count_of_table(table, account, 2 * MAX_COUNTED_ROWS).await?;
    }
    Ok(all)
}

/// Stores the largest number of rows that a round that ended deleted of one account. A confirmation holds
/// for one round; one that arrived after the round had judged the numbers is left for the next round.
/// `completed_at` is the start of the round. `None` if parts of it failed.
async fn record_end(
    jobs: &Jobs,
    judgement: Judgement,
    completed_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    let Some(watch) = jobs.system().retention_watch().await? else { return Ok(()) };
    let usual = decayed_round_size(watch.usual_rows.unsigned_abs(), judgement.largest);
    let usual_rows = i64::try_from(usual).unwrap_or(i64::MAX);
    let completed_at = completed_at.or(watch.completed_at);
    record(jobs, Some(&watch), retention_watch::Model { usual_rows, completed_at, ..watch.clone() }).await?;
    if judgement.is_confirmed {
        jobs.system().end_confirmation().await?;
    }
    Ok(())
}
