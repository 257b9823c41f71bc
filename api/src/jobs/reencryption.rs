//! The job that encrypts rows of older keys, and rows without encryption, with the current key.
//!
//! It goes through all tables repeatedly until a pass finds nothing. Its position is kept only in
//! memory: after a restart it starts again and skips finished rows without reading their texts.

use std::collections::BTreeSet;

use entity::Timestamp;

use super::{BATCH_PAUSE, Jobs, Progress};
use crate::{
    domain::retention::DAY,
    key_ring::{KEY_PROPAGATION_TIME, log_missing_key},
    store::{ENCRYPTED_TABLES, StoreError, SystemStore, maintenance::reencrypt::Position},
};

/// The maximum number of batches per round.
const BATCHES: u32 = 200;

/// The position of the pass.
#[derive(Clone, Debug, Default)]
pub(super) struct ReencryptionPass {
    /// The encrypting key of this pass, and the time from which it has been in use, in epoch
    /// milliseconds.
    primary: Option<(i64, i64)>,
    table: usize,
    position: Option<Position>,
    /// The number of rows encrypted in this pass over the tables.
    rows: u64,
    /// The start of the next pass after one that found nothing, in epoch milliseconds.
    next_pass_at: Option<i64>,
}

impl ReencryptionPass {
    /// Returns true if the pass has work. Starts a new pass if the key changed or the next pass is due.
    fn is_due(&mut self, primary: i64, now: Timestamp) -> bool {
        let now = now.timestamp_millis();
        let since = self.primary.filter(|(key, _)| *key == primary).map(|(_, since)| since);
        if since.is_none() || self.next_pass_at.is_some_and(|at| at <= now) {
            *self = Self { primary: Some((primary, since.unwrap_or(now))), ..Self::default() };
        }
        self.next_pass_at.is_none()
    }

    /// Continues with the next table, or schedules the next pass.
    fn finish_table(&mut self, now: Timestamp) {
        (self.table, self.position) = (self.table + 1, None);
        if self.table == ENCRYPTED_TABLES.len() {
            let now = now.timestamp_millis();
            let propagation_ms = KEY_PROPAGATION_TIME.num_milliseconds();
            let is_new = self.primary.is_some_and(|(_, since)| now - since < propagation_ms);
            let delay_ms = if is_new { propagation_ms } else { DAY };
            self.next_pass_at = (self.rows == 0).then_some(now + delay_ms);
            (self.table, self.rows) = (0, 0);
        }
    }
}

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let (store, keys, now) = (jobs.system(), jobs.store.keys(), jobs.now());
    let mut pass = jobs.reencryption_pass.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let mut progress = Progress::default();
    for _ in 0..BATCHES {
        if !pass.is_due(keys.keys().primary(), now) || jobs.is_stopping() {
            break;
        }
        let table = pass.table;
        let batch = store.reencrypt(table, keys, pass.position.take()).await?;
        progress.add(ENCRYPTED_TABLES[table], batch.rows);
        progress.add("unreadable", batch.unreadable);
        record_missing_keys(&store, &batch.missing, now).await?;
        pass.rows += batch.rows;
        if batch.next.is_some() {
            pass.position = batch.next;
            jobs.sleep_or_stop(BATCH_PAUSE).await;
        } else {
            pass.finish_table(now);
        }
    }
    progress.has_more = pass.next_pass_at.is_none();
    *jobs.reencryption_pass.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = pass;
    Ok(progress)
}

/// Logs and records keys that rows need but that have no record, for example after a premature removal.
/// Servers use the records at their start to detect missing keys.
async fn record_missing_keys(
    store: &SystemStore,
    missing: &BTreeSet<i64>,
    now: Timestamp,
) -> Result<(), StoreError> {
    if missing.is_empty() {
        return Ok(());
    }
    let recorded_keys = store.known_keys().await?;
    for id in missing.iter().filter(|id| !recorded_keys.contains_key(*id)) {
        log_missing_key(*id);
        store.record_key(*id, now).await?;
    }
    Ok(())
}
