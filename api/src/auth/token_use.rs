//! The last use of tokens. It is kept in memory and written periodically, so that requests do not have
//! to write.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use entity::{Timestamp, ids::ApiTokenId};
use lru::LruCache;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    error::Chain,
    store::{StoreError, SystemStore, TokenUse},
};

/// The maximum delay of a write, unless the database is unavailable.
const FLUSH_INTERVAL: Duration = Duration::from_mins(1);

/// The maximum number of tokens kept in memory while the database is unavailable. The least recently
/// used ones are dropped.
const MAX_TOKENS: NonZeroUsize = NonZeroUsize::new(100_000).expect("it is more than none");

/// The last uses of tokens since the last write.
#[derive(Clone)]
pub struct TokenUses {
    store: SystemStore,
    last: PendingUses,
    /// The last use by a scheduler of a token with more than the `ingest` scope.
    broad: PendingUses,
}

type PendingUses = Arc<Mutex<LruCache<ApiTokenId, Timestamp>>>;

impl TokenUses {
    /// Returns a recorder that writes to `store`.
    #[must_use]
    pub fn new(store: SystemStore) -> Self {
        Self { store, last: Arc::new(Mutex::new(empty())), broad: Arc::new(Mutex::new(empty())) }
    }

    /// Records the use of a token.
    pub(super) fn note(&self, token: ApiTokenId, now: Timestamp) {
        keep_latest(&mut lock(&self.last), token, now);
    }

    /// Records that a scheduler used a token with more than the `ingest` scope.
    pub(crate) fn record_broad_use(&self, token: ApiTokenId, now: Timestamp) {
        keep_latest(&mut lock(&self.broad), token, now);
    }

    /// Writes the pending uses. They are kept for the next time if the write fails.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn flush_uses(&self) -> Result<(), StoreError> {
        let last = self.flush(&self.last, TokenUse::Any).await;
        self.flush(&self.broad, TokenUse::Broad).await?;
        last
    }

    async fn flush(&self, pending: &PendingUses, kind: TokenUse) -> Result<(), StoreError> {
        let uses = std::mem::replace(&mut *lock(pending), empty());
        if uses.is_empty() {
            return Ok(());
        }
        let mut sorted: Vec<_> = uses.iter().map(|(token, at)| (*token, *at)).collect();
        sorted.sort_by_key(|(token, _)| *token);
        let written = self.store.record_token_uses(kind, &sorted).await;
        if written.is_err() {
            let mut last = lock(pending);
            // The uses recorded during the failed write are newer than all the others.
            let meanwhile = std::mem::replace(&mut *last, uses);
            for (token, at) in meanwhile.iter().rev() {
                keep_latest(&mut last, *token, *at);
            }
        }
        written
    }

    /// Writes the pending uses every minute, forever.
    pub(crate) async fn flush_periodically(self) {
        let mut ticks = interval(FLUSH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.flush_uses().await {
                tracing::warn!(error = %Chain(&error), "failed to record the last use of tokens");
            }
        }
    }
}

fn lock(pending: &PendingUses) -> MutexGuard<'_, LruCache<ApiTokenId, Timestamp>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn empty() -> LruCache<ApiTokenId, Timestamp> {
    // Grows on demand, because most servers have few tokens.
    let mut empty = LruCache::unbounded();
    empty.resize(MAX_TOKENS);
    empty
}

fn keep_latest(last: &mut LruCache<ApiTokenId, Timestamp>, token: ApiTokenId, at: Timestamp) {
    let known = last.get(&token).map_or(at, |known| if known.0 < at.0 { at } else { *known });
    last.put(token, known);
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn no_more_tokens_are_remembered_than_fit() {
        let (mut last, now) = (empty(), Timestamp::from(DateTime::UNIX_EPOCH));
        for number in 0..=MAX_TOKENS.get() as u128 {
            keep_latest(&mut last, ApiTokenId(Uuid::from_u128(number)), now);
        }
        assert_eq!(last.len(), MAX_TOKENS.get());
        assert!(!last.contains(&ApiTokenId(Uuid::from_u128(0))), "the one used the longest ago is forgotten");
        assert!(last.contains(&ApiTokenId(Uuid::from_u128(1))));
    }
}
