//! Noticing things of clusters: rounds that look at what was reported since the last one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use entity::{
    Timestamp,
    ids::{AccountId, ClusterId, FlagId},
};
use uuid::Uuid;

use crate::{
    domain::flag::{Decision, decide, holds_many_tasks},
    error::Chain,
    store::{AccountStore, DueCluster, MAX_DUE_CLUSTERS, Store, StoreError},
};

/// Clusters that are looked at together at the most.
const CLUSTERS: usize = 50;

/// Workers of those, unless one cluster has more.
const WORKERS: i64 = 1_500;

/// A report says when it came before it is stored; one that began so many milliseconds ago is stored or refused.
const UNDER_WAY: i64 = 2 * 60 * 1_000;

/// The first round of a server looks so far back, in milliseconds, and all rounds at what closed since then.
const DAY: i64 = 86_400_000;

/// Looks at clusters again and again.
#[derive(Clone)]
pub struct Flags {
    store: Store,
    /// When the last round began that looked at everything.
    looked_at: Arc<Mutex<Option<i64>>>,
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Flags that came, went or became worse.
    pub changed: u64,
    /// Clusters that could not be looked at. They are again in the next round.
    pub failed: u64,
}

impl Flags {
    /// Clusters are those of `store`.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, looked_at: Arc::default() }
    }

    /// Looks at all clusters that reported since the last round, and at those that have flags and do not report any more.
    ///
    /// # Errors
    /// When it cannot be found out which clusters these are.
    #[tracing::instrument(name = "app.flag.round", skip_all)]
    pub async fn round(&self, now: Timestamp) -> Result<Looked, StoreError> {
        let now_ms = now.timestamp_millis();
        let last = *self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let seen_since = last.map_or(now_ms - DAY, |last| last - UNDER_WAY);
        let (mut looked, mut after) = (Looked::default(), None);
        loop {
            let due = self.store.system().clusters_to_flag(seen_since, now_ms - DAY, after).await?;
            let more = due.len() as u64 == MAX_DUE_CLUSTERS;
            after = due.last().map(|last| (last.account_id, last.cluster_id));
            for (account, clusters) in pieces(&due) {
                let store = self.store.for_work_of(account);
                match look_at(&store, &clusters, now).await {
                    Ok(changed) => looked.changed += changed,
                    // What is damaged in one account must not keep others from it.
                    Err(error) => {
                        looked.failed += clusters.len() as u64;
                        tracing::warn!(%account, error = %Chain(&error), "clusters were not looked at for flags");
                    }
                }
            }
            if !more {
                break;
            }
        }
        if looked.failed == 0 {
            *self.looked_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(now_ms);
        }
        Ok(looked)
    }
}

/// Clusters of one account each, few enough to be looked at together.
fn pieces(due: &[DueCluster]) -> Vec<(AccountId, Vec<ClusterId>)> {
    let mut pieces: Vec<(AccountId, Vec<ClusterId>)> = Vec::new();
    let mut workers = 0;
    for cluster in due {
        let fits = |of: &[ClusterId]| of.len() < CLUSTERS && workers + cluster.workers <= WORKERS;
        match pieces.last_mut() {
            Some((account, clusters)) if *account == cluster.account_id && fits(clusters) => {
                clusters.push(cluster.cluster_id);
                workers += cluster.workers;
            }
            _ => {
                pieces.push((cluster.account_id, vec![cluster.cluster_id]));
                workers = cluster.workers;
            }
        }
    }
    pieces
}

async fn look_at(store: &AccountStore, clusters: &[ClusterId], now: Timestamp) -> Result<u64, StoreError> {
    let timeout = store.idle_policy().await?.and_then(|policy| policy.timeout_seconds);
    let mut facts = store.flag_facts(clusters, timeout, now).await?;
    let many: Vec<ClusterId> =
        facts.iter().filter(|(_, facts)| holds_many_tasks(facts)).map(|(cluster, _)| *cluster).collect();
    if !many.is_empty() {
        for (cluster, function) in store.largest_functions(&many).await? {
            if let Some(facts) = facts.get_mut(&cluster) {
                facts.largest = Some(function);
            }
        }
    }
    let known = store.flags_of(clusters).await?;
    let of = |cluster| known.get(&cluster).map_or(&[][..], Vec::as_slice);
    facts.retain(|cluster, facts| !decide(facts, of(*cluster)).is_empty());
    if facts.is_empty() {
        return Ok(0);
    }
    let facts = Arc::new(facts);
    let decisions = store.write(move |store| {
        let facts = Arc::clone(&facts);
        Box::pin(async move {
            // Others who look at the same clusters wait here, and find what was decided.
            let clusters: Vec<ClusterId> = facts.keys().copied().collect();
            let mut held = store.lock_clusters(&clusters).await?;
            let known = store.flags_of(&clusters).await?;
            let of = |cluster| known.get(&cluster).map_or(&[][..], Vec::as_slice);
            let decisions: BTreeMap<ClusterId, Decision> =
                facts.iter().map(|(cluster, facts)| (*cluster, decide(facts, of(*cluster)))).collect();
            store.record_flags(&decisions, || FlagId(Uuid::now_v7())).await?;
            held.retain(|(cluster, _)| decisions.get(cluster).is_some_and(|decision| !decision.is_empty()));
            store.touch_flagged(&held, now).await?;
            Ok(decisions)
        })
    });
    Ok(tell(&decisions.await?))
}

/// The one place that all changes of flags come through, once they are stored. Returns how many there are.
fn tell(decisions: &BTreeMap<ClusterId, Decision>) -> u64 {
    let changed = decisions.values().flat_map(|decision| &decision.changed);
    changed.inspect(|flag| tracing::debug!(kind = ?flag.kind, value = flag.value, "a flag changed")).count()
        as u64
}
