//! Rows under an older key, or under none, are encrypted with the key that encrypts today.
//!
//! A walk goes over all tables, and over again until it finds nothing. Where it stands is kept in memory alone: after
//! a restart it begins anew and passes what it did before without reading the texts.

use std::collections::BTreeSet;

use entity::Timestamp;

use super::{BREATH, Jobs, Progress};
use crate::{
    domain::retention::DAY,
    key_ring::{OTHERS_FOLLOW_WITHIN, tell_missing},
    store::{SEALED_TABLES, StoreError, SystemStore, reseal::Position},
};

/// Batches in one round at the most.
const BATCHES: u32 = 200;

/// How far the walk is.
#[derive(Clone, Debug, Default)]
pub(super) struct Walk {
    /// The key it encrypts with, and since when that encrypts, in epoch milliseconds.
    primary: Option<(i64, i64)>,
    table: usize,
    after: Option<Position>,
    /// Rows it encrypted since it last began with the first table.
    rows: u64,
    /// When the next one begins, in epoch milliseconds, after one that found nothing.
    next: Option<i64>,
}

impl Walk {
    /// Begins anew when there is a new key, or when it is time to look again.
    fn is_due(&mut self, primary: i64, now: Timestamp) -> bool {
        let now = now.timestamp_millis();
        let since = self.primary.filter(|(key, _)| *key == primary).map(|(_, since)| since);
        if since.is_none() || self.next.is_some_and(|next| next <= now) {
            *self = Self { primary: Some((primary, since.unwrap_or(now))), ..Self::default() };
        }
        self.next.is_none()
    }

    /// Goes on to the next table, or to the next walk.
    fn end_of_table(&mut self, now: Timestamp) {
        (self.table, self.after) = (self.table + 1, None);
        if self.table == SEALED_TABLES.len() {
            let now = now.timestamp_millis();
            let soon = OTHERS_FOLLOW_WITHIN.num_milliseconds();
            let is_new = self.primary.is_some_and(|(_, since)| now - since < soon);
            let rest = if is_new { soon } else { DAY };
            self.next = (self.rows == 0).then_some(now + rest);
            (self.table, self.rows) = (0, 0);
        }
    }
}

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let (store, keys, now) = (jobs.system(), jobs.store.keys(), jobs.now());
    let mut walk = jobs.walk.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let mut progress = Progress::default();
    for _ in 0..BATCHES {
        if !walk.is_due(keys.keys().primary(), now) || jobs.is_stopping() {
            break;
        }
        let table = walk.table;
        let resealed = store.reseal(table, keys, walk.after.take()).await?;
        progress.add(SEALED_TABLES[table], resealed.rows);
        progress.add("unreadable", resealed.unreadable);
        keep_account_of_missing(&store, &resealed.missing, now).await?;
        walk.rows += resealed.rows;
        if resealed.next.is_some() {
            walk.after = resealed.next;
            jobs.rest(BREATH).await;
        } else {
            walk.end_of_table(now);
        }
    }
    progress.more = walk.next.is_none();
    *jobs.walk.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = walk;
    Ok(progress)
}

/// Tells of keys that rows need and the store does not know, as of one that was forgotten too early, and writes them down:
/// servers that start know by that which keys they lack.
async fn keep_account_of_missing(
    store: &SystemStore,
    missing: &BTreeSet<i64>,
    now: Timestamp,
) -> Result<(), StoreError> {
    if missing.is_empty() {
        return Ok(());
    }
    let known = store.known_keys().await?;
    for id in missing.iter().filter(|id| !known.contains_key(*id)) {
        tell_missing(*id);
        store.record_key(*id, now).await?;
    }
    Ok(())
}
