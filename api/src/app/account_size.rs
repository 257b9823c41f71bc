//! The number of clusters of an account, cached for the cost calculation of queries.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use entity::ids::AccountId;
use lru::LruCache;

use crate::store::{AccountStore, ClusterFilter, StoreError};

/// The maximum number of cached accounts. Evicted ones are counted again.
const CACHE_CAPACITY: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is more than none");

/// The lifetime of a cached count. Counting costs about as much as the queries whose cost depends on it.
const CACHE_TTL: Duration = Duration::from_mins(1);

/// A cache of the number of clusters per account. Each account is counted at most once a minute.
pub(crate) struct AccountSizes(Mutex<LruCache<AccountId, (Instant, u64)>>);

impl Default for AccountSizes {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(CACHE_CAPACITY)))
    }
}

impl AccountSizes {
    /// Returns the number of the account's clusters, at most one minute old.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub(crate) async fn clusters(&self, store: &AccountStore) -> Result<u64, StoreError> {
        let account = store.account_id();
        if let Some((counted_at, clusters)) =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&account)
            && counted_at.elapsed() < CACHE_TTL
        {
            return Ok(*clusters);
        }
        let clusters = store.cluster_count(&ClusterFilter::default()).await?;
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.put(account, (Instant::now(), clusters));
        Ok(clusters)
    }
}
