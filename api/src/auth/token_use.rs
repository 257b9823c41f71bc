//! When tokens were last used. It is kept in memory and written down now and then, so that no request has to write.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use entity::{Timestamp, ids::ApiTokenId};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    error::Chain,
    store::{StoreError, SystemStore},
};

/// How late it is written down at the most, unless the database is away.
const EVERY: Duration = Duration::from_mins(1);

/// When tokens were last used that were since it was last written down.
#[derive(Clone)]
pub struct TokenUses {
    store: SystemStore,
    // Only tokens that are good come in here, so it has no more entries than there are of those.
    last: Arc<Mutex<HashMap<ApiTokenId, Timestamp>>>,
}

impl TokenUses {
    /// They are written to `store`.
    #[must_use]
    pub fn new(store: SystemStore) -> Self {
        Self { store, last: Arc::default() }
    }

    /// A token is used.
    pub(super) fn note(&self, token: ApiTokenId, now: Timestamp) {
        keep_latest(&mut self.last(), token, now);
    }

    /// Writes down what is not yet. What cannot be written is kept for the next time.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn write_down(&self) -> Result<(), StoreError> {
        let uses = std::mem::take(&mut *self.last());
        if uses.is_empty() {
            return Ok(());
        }
        let mut sorted: Vec<_> = uses.iter().map(|(token, at)| (*token, *at)).collect();
        sorted.sort_by_key(|(token, _)| *token);
        let written = self.store.record_token_uses(&sorted).await;
        if written.is_err() {
            let mut last = self.last();
            for (token, at) in uses {
                keep_latest(&mut last, token, at);
            }
        }
        written
    }

    /// Writes it down every minute, for ever.
    pub(crate) async fn write_down_now_and_then(self) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.write_down().await {
                tracing::warn!(error = %Chain(&error), "when tokens were last used was not written down");
            }
        }
    }

    fn last(&self) -> MutexGuard<'_, HashMap<ApiTokenId, Timestamp>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep_latest(last: &mut HashMap<ApiTokenId, Timestamp>, token: ApiTokenId, at: Timestamp) {
    let known = last.entry(token).or_insert(at);
    if known.0 < at.0 {
        *known = at;
    }
}
