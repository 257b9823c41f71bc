//! Rows under an older key, or under none, are encrypted with the key that encrypts today.
//!
//! A walk goes over all tables, and over again until it finds nothing. Where it stands is kept in memory alone: after
//! a restart it begins anew and passes what it did before without reading the texts.

use entity::Timestamp;

use super::{BREATH, Jobs, Progress};
use crate::{
    domain::retention::DAY,
    store::{SEALED_TABLES, StoreError, reseal::Position},
};

/// Batches in one round at the most.
const BATCHES: u32 = 200;

/// Another server may go on with the older key for a while, until it has read the key file again.
const OTHERS_FOLLOW_WITHIN: i64 = 5 * 60 * 1_000;

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
            let is_new = self.primary.is_some_and(|(_, since)| now - since < OTHERS_FOLLOW_WITHIN);
            let rest = if is_new { OTHERS_FOLLOW_WITHIN } else { DAY };
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
