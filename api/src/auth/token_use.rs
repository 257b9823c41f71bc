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
    last_uses: PendingUses,
    /// The last use by a scheduler of a token with more than the `ingest` scope.
    broad_uses: PendingUses,
}

type PendingUses = Arc<Mutex<LruCache<ApiTokenId, Timestamp>>>;

impl TokenUses {
    /// Returns a recorder that writes to `store`.
    #[must_use]
    pub fn new(store: SystemStore) -> Self {
        Self {
            store,
            last_uses: Arc::new(Mutex::new(empty_cache())),
            broad_uses: Arc::new(Mutex::new(empty_cache())),
        }
    }

    /// Records the use of a token.
    pub(super) fn record_use(&self, token: ApiTokenId, now: Timestamp) {
        keep_latest(&mut lock(&self.last_uses), token, now);
    }

    /// Records that a scheduler used a token with more than the `ingest` scope.
    pub(crate) fn record_broad_use(&self, token: ApiTokenId, now: Timestamp) {
        keep_latest(&mut lock(&self.broad_uses), token, now);
    }

    /// Writes the pending uses. They are kept for the next write if this one fails.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn flush_uses(&self) -> Result<(), StoreError> {
        let result = self.flush(&self.last_uses, TokenUse::Any).await;
        self.flush(&self.broad_uses, TokenUse::Broad).await?;
        result
    }

    async fn flush(&self, pending: &PendingUses, kind: TokenUse) -> Result<(), StoreError> {
        let uses = std::mem::replace(&mut *lock(pending), empty_cache());
        if uses.is_empty() {
            return Ok(());
        }
        let mut sorted: Vec<_> = uses.iter().map(|(token, at)| (*token, *at)).collect();
        sorted.sort_by_key(|(token, _)| *token);
        let result = self.store.record_token_uses(kind, &sorted).await;
        if result.is_err() {
            let mut restored_uses = lock(pending);
            // The uses recorded during the failed write are newer than all the others.
            let newer_uses = std::mem::replace(&mut *restored_uses, uses);
            for (token, at) in newer_uses.iter().rev() {
                keep_latest(&mut restored_uses, *token, *at);
            }
        }
        result
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

fn empty_cache() -> LruCache<ApiTokenId, Timestamp> {
    // Grows on demand, because most servers have few tokens.
    let mut cache = LruCache::unbounded();
    cache.resize(MAX_TOKENS);
    cache
}

fn keep_latest(uses: &mut LruCache<ApiTokenId, Timestamp>, token: ApiTokenId, at: Timestamp) {
    let latest = uses.get(&token).map_or(at, |recorded| if recorded.0 < at.0 { at } else { *recorded });
    uses.put(token, latest);
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn no_more_tokens_are_remembered_than_fit() {
        let (mut last, now) = (empty_cache(), Timestamp::from(DateTime::UNIX_EPOCH));
        for number in 0..=MAX_TOKENS.get() as u128 {
            keep_latest(&mut last, ApiTokenId(Uuid::from_u128(number)), now);
        }
        assert_eq!(last.len(), MAX_TOKENS.get());
        assert!(!last.contains(&ApiTokenId(Uuid::from_u128(0))), "the one used the longest ago is forgotten");
        assert!(last.contains(&ApiTokenId(Uuid::from_u128(1))));
    }
}
