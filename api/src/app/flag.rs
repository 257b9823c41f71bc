//! Flags of clusters: the rounds that evaluate the data reported since the last one.

use std::{collections::BTreeMap, sync::Arc};

use entity::{
    Timestamp,
    ids::{AccountId, ClusterId, FlagId},
};
use tokio::{sync::Mutex, time::Instant};
use uuid::Uuid;

use crate::{
    domain::flag::{Decision, decide, needs_largest_function},
    error::Chain,
    store::{AccountStore, DueCluster, MAX_DUE_CLUSTERS, Store, StoreError},
};

/// The maximum number of clusters evaluated together.
const CLUSTERS: usize = 50;

/// The maximum number of workers of those clusters, unless a single cluster has more.
const WORKERS: i64 = 1_500;

/// The maximum time between the arrival and the storage of a report, in milliseconds. A report's arrival
/// time is taken before it is stored, so each round looks back this far.
const MAX_STORE_DELAY_MS: i64 = 2 * 60 * 1_000;

/// The period that the first round of a server looks back, in milliseconds. All rounds look back this
/// far for closed clusters.
const DAY_MS: i64 = 86_400_000;

/// The number of accounts loaded at once.
const ACCOUNTS: u64 = 500;

/// The evaluator of flags.
#[derive(Clone)]
pub struct Flags {
    store: Store,
    progress: Arc<Mutex<RoundProgress>>,
}

/// The progress of the rounds. It is kept only in memory: the first round of a server evaluates a whole
/// day.
#[derive(Default)]
struct RoundProgress {
    /// The start of the last complete round, in epoch milliseconds.
    last_round_at: Option<i64>,
    /// The start of the current round, in epoch milliseconds.
    started_at: Option<i64>,
    /// The last account that the current round evaluated.
    after: Option<AccountId>,
    /// Accounts that need further rounds: they have more clusters than one round evaluates, or some
    /// failed.
    unfinished: BTreeMap<AccountId, AccountProgress>,
}

/// The progress of an account whose clusters take several rounds.
#[derive(Clone, Copy)]
struct AccountProgress {
    /// The time from which reporting clusters are evaluated, in epoch milliseconds.
    seen_since: i64,
    /// The start of this pass over the account, in epoch milliseconds.
    started_at: i64,
    /// The last evaluated cluster of this pass.
    after: Option<ClusterId>,
    /// True if the store failed for some clusters, which are evaluated again.
    failed: bool,
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagRound {
    /// The number of flags that were raised, cleared or got worse.
    pub changed: u64,
    /// The number of clusters that failed to evaluate. The next round evaluates them again.
    pub failed: u64,
    /// True if clusters are left that the next round can evaluate at once.
    pub has_more: bool,
}

impl Flags {
    /// Returns an evaluator of the clusters in `store`.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, progress: Arc::default() }
    }

    /// Evaluates the clusters that reported since the last round, and those with flags that no longer
    /// report. Evaluates a bounded number of each account, and stops after `deadline`. The next round
    /// continues where a stopped one ended.
    ///
    /// # Errors
    /// Returns an error if the clusters cannot be loaded.
    #[tracing::instrument(name = "app.flag.round", skip_all)]
    pub async fn run_round(&self, now: Timestamp, deadline: Instant) -> Result<FlagRound, StoreError> {
        let (now_ms, mut outcome) = (now.timestamp_millis(), FlagRound::default());
        let mut progress = self.progress.lock().await;
        let started_at = *progress.started_at.get_or_insert(now_ms);
        let seen_since = progress
            .last_round_at
            .map_or(now_ms - DAY_MS, |last_round_at| last_round_at - MAX_STORE_DELAY_MS);
        loop {
            let accounts = self.store.system().accounts_after(progress.after, ACCOUNTS).await?;
            let Some(last_account) = accounts.last().copied() else { break };
            let previous_account = progress.after.unwrap_or(AccountId(Uuid::nil()));
            let system = self.store.system();
            let due_clusters = system
                .find_clusters_to_evaluate(
                    seen_since,
                    now_ms - DAY_MS,
                    (previous_account, ClusterId(i64::MAX)),
                    last_account,
                )
                .await?;
            let is_cut = due_clusters.len() as u64 == MAX_DUE_CLUSTERS;
            // The accounts after a full page belong to the next page, except the account in which this
            // page ends.
            let last_account =
                due_clusters.last().filter(|_| is_cut).map_or(last_account, |cluster| cluster.account_id);
            let new_pass = AccountProgress { seen_since, started_at, after: None, failed: false };
            let mut account_passes: BTreeMap<AccountId, (AccountProgress, Vec<DueCluster>, bool)> =
                BTreeMap::new();
            for clusters in due_clusters.chunk_by(|a, b| a.account_id == b.account_id) {
                let account = clusters[0].account_id;
                if !progress.unfinished.contains_key(&account) {
                    account_passes
                        .insert(account, (new_pass, clusters.to_vec(), is_cut && account == last_account));
                }
            }
            let unfinished: Vec<(AccountId, AccountProgress)> = progress
                .unfinished
                .iter()
                .filter(|(account, _)| **account > previous_account && **account <= last_account)
                .map(|(account, unfinished)| (*account, *unfinished))
                .collect();
            for (account, unfinished) in unfinished {
                let after = (account, unfinished.after.unwrap_or(ClusterId(i64::MIN)));
                let due_clusters = system
                    .find_clusters_to_evaluate(unfinished.seen_since, now_ms - DAY_MS, after, account)
                    .await?;
                let is_cut = due_clusters.len() as u64 == MAX_DUE_CLUSTERS;
                account_passes.insert(account, (unfinished, due_clusters, is_cut));
            }
            for (account, (pass, due_clusters, is_cut)) in account_passes {
                let remaining =
                    self.evaluate_account(account, pass, &due_clusters, is_cut, now, &mut outcome).await;
                match remaining {
                    Some(unfinished) => drop(progress.unfinished.insert(account, unfinished)),
                    None => drop(progress.unfinished.remove(&account)),
                }
                progress.after = Some(account);
                if Instant::now() >= deadline {
                    return Ok(FlagRound { has_more: true, ..outcome });
                }
            }
            progress.after = Some(last_account);
        }
        (progress.after, progress.started_at, progress.last_round_at) = (None, None, Some(started_at));
        outcome.has_more =
            outcome.failed == 0 && progress.unfinished.values().any(|unfinished| unfinished.after.is_some());
        Ok(outcome)
    }

    /// Evaluates the first due clusters of an account. Returns the position at which the next round
    /// continues, if any are left.
    async fn evaluate_account(
        &self,
        account: AccountId,
        pass: AccountProgress,
        due_clusters: &[DueCluster],
        is_cut: bool,
        now: Timestamp,
        outcome: &mut FlagRound,
    ) -> Option<AccountProgress> {
        let clusters = first_clusters(due_clusters);
        if !clusters.is_empty() {
            match evaluate_clusters(&self.store.for_background_work(account), &clusters, now).await {
                Ok(changed) => outcome.changed += changed,
                // Damaged data of one account must not keep other accounts, or its other clusters, from
                // being evaluated.
                Err(error) => {
                    outcome.failed += clusters.len() as u64;
                    tracing::warn!(%account, error = %Chain(&error), "failed to evaluate the flags of clusters");
                    let resume_after =
                        clusters.last().copied().filter(|_| clusters.len() < due_clusters.len());
                    return Some(AccountProgress { after: resume_after, failed: true, ..pass });
                }
            }
        }
        if clusters.len() < due_clusters.len() || is_cut {
            return Some(AccountProgress { after: clusters.last().copied(), ..pass });
        }
        // A new pass covers the clusters that reported during this one.
        let seen_since = if pass.failed { pass.seen_since } else { pass.started_at - MAX_STORE_DELAY_MS };
        let next_pass =
            AccountProgress { seen_since, started_at: now.timestamp_millis(), after: None, failed: false };
        pass.after.map(|_| next_pass)
    }
}

/// Returns the first clusters of an account, few enough to be evaluated together.
fn first_clusters(due_clusters: &[DueCluster]) -> Vec<ClusterId> {
    let mut workers = 0;
    let fits = |(index, cluster): &(usize, &DueCluster)| {
        workers += cluster.workers;
        *index == 0 || (*index < CLUSTERS && workers <= WORKERS)
    };
    due_clusters.iter().enumerate().take_while(fits).map(|(_, cluster)| cluster.cluster_id).collect()
}

async fn evaluate_clusters(
    store: &AccountStore,
    clusters: &[ClusterId],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let timeout = store.idle_policy().await?.and_then(|policy| policy.timeout_seconds);
    let mut facts = store.flag_facts(clusters, timeout, now).await?;
    let large_graphs: Vec<ClusterId> = facts
        .iter()
        .filter(|(_, facts)| needs_largest_function(facts))
        .map(|(cluster, _)| *cluster)
        .collect();
    if !large_graphs.is_empty() {
        for (cluster, function) in store.largest_functions(&large_graphs).await? {
            if let Some(facts) = facts.get_mut(&cluster) {
                facts.largest = Some(function);
            }
        }
    }
    let flags = store.load_flags(clusters).await?;
    let flags_of = |cluster| flags.get(&cluster).map_or(&[][..], Vec::as_slice);
    facts.retain(|cluster, facts| !decide(facts, flags_of(*cluster)).is_empty());
    if facts.is_empty() {
        return Ok(0);
    }
    let facts = Arc::new(facts);
    let decisions = store.write(move |store| {
        let facts = Arc::clone(&facts);
        Box::pin(async move {
            // The lock serializes servers that evaluate the same clusters. The later one finds the
            // decisions of the first.
            let clusters: Vec<ClusterId> = facts.keys().copied().collect();
            let mut locked_clusters = store.lock_clusters(&clusters).await?;
            let flags = store.load_flags(&clusters).await?;
            let flags_of = |cluster| flags.get(&cluster).map_or(&[][..], Vec::as_slice);
            let decisions: BTreeMap<ClusterId, Decision> =
                facts.iter().map(|(cluster, facts)| (*cluster, decide(facts, flags_of(*cluster)))).collect();
            store.record_flags(&decisions, || FlagId(Uuid::now_v7())).await?;
            locked_clusters
                .retain(|(cluster, _)| decisions.get(cluster).is_some_and(|decision| !decision.is_empty()));
            store.record_flag_changes(&locked_clusters, now).await?;
            Ok(decisions)
        })
    });
    Ok(log_changes(&decisions.await?))
}

/// Logs the stored changes of flags. All changes pass through this function. Returns their number.
fn log_changes(decisions: &BTreeMap<ClusterId, Decision>) -> u64 {
    let flags = decisions.values().flat_map(|decision| &decision.changed);
    flags.inspect(|flag| tracing::debug!(kind = ?flag.kind, value = flag.value, "flag changed")).count()
        as u64
}
