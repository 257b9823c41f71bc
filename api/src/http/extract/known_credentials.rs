//! Credentials that were valid recently. They authenticate nobody: they only select the slots in which a
//! request waits for its authentication, so that unauthenticated clients at its address cannot delay it.

use std::{
    hash::{BuildHasher, RandomState},
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lru::LruCache;

use super::credentials::Credentials;
use crate::{
    auth::{LimitKey, Viewer},
    domain::session::SessionSecret,
    shares::Holder,
};

/// The number of credentials that are remembered.
const MAX_ENTRIES: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is more than none");

/// The time for which credentials are remembered after they were valid.
const LIFETIME: Duration = Duration::from_mins(10);

/// The credentials that were valid recently, by their hash.
pub(crate) struct KnownCredentials {
    hash_builder: RandomState,
    entries: Mutex<LruCache<u64, KnownHolder>>,
}

#[derive(Clone, Copy)]
struct KnownHolder {
    holder: Holder,
    key: LimitKey,
    verified_at: Instant,
}

impl Default for KnownCredentials {
    fn default() -> Self {
        Self { hash_builder: RandomState::new(), entries: Mutex::new(LruCache::new(MAX_ENTRIES)) }
    }
}

impl KnownCredentials {
    /// Returns a hash of the credentials that count. Its random key prevents chosen collisions.
    pub(crate) fn hash(&self, credentials: &Credentials) -> u64 {
        let session = credentials.session.as_ref().map(SessionSecret::id);
        self.hash_builder.hash_one(match (&credentials.authorization, &session) {
            // A cookie is ignored beside other credentials, so that it makes no other entry of them.
            (Some(authorization), _) => (0, Some(&**authorization)),
            (None, session) => (1, session.as_deref()),
        })
    }

    /// Returns the holder and the rate limiter's key of credentials that were valid recently.
    pub(crate) fn find(&self, credentials: &Credentials) -> Option<(Holder, LimitKey)> {
        let entry = *self.lock_entries().get(&self.hash(credentials))?;
        (entry.verified_at.elapsed() < LIFETIME).then_some((entry.holder, entry.key))
    }

    /// Remembers valid credentials.
    pub(crate) fn remember(&self, credentials: &Credentials, viewer: &Viewer) {
        let entry =
            KnownHolder { holder: viewer.holder(), key: viewer.limit_key(), verified_at: Instant::now() };
        self.lock_entries().put(self.hash(credentials), entry);
    }

    /// Removes credentials that are not valid any more.
    pub(crate) fn remove(&self, credentials: &Credentials) {
        self.lock_entries().pop(&self.hash(credentials));
    }

    fn lock_entries(&self) -> MutexGuard<'_, LruCache<u64, KnownHolder>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
