//! Credentials that were valid a moment ago. They authenticate nobody: they only decide in whose slots a
//! request waits for its authentication, so that strangers at the same address cannot delay it.

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
const MAX_KNOWN: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is more than none");

/// The time for which credentials are remembered after they were valid.
const LIFETIME: Duration = Duration::from_mins(10);

/// The credentials that were valid recently, by their hash.
pub(crate) struct KnownCredentials {
    hashes: RandomState,
    known: Mutex<LruCache<u64, Known>>,
}

#[derive(Clone, Copy)]
struct Known {
    holder: Holder,
    key: LimitKey,
    since: Instant,
}

impl Default for KnownCredentials {
    fn default() -> Self {
        Self { hashes: RandomState::new(), known: Mutex::new(LruCache::new(MAX_KNOWN)) }
    }
}

impl KnownCredentials {
    /// Returns a hash of the credentials that count. Its random key prevents chosen collisions.
    pub(crate) fn hash(&self, shown: &Credentials) -> u64 {
        let session = shown.session.as_ref().map(SessionSecret::id);
        self.hashes.hash_one(match (&shown.authorization, &session) {
            // A cookie is ignored beside other credentials, so that it makes no other entry of them.
            (Some(authorization), _) => (0, Some(&**authorization)),
            (None, session) => (1, session.as_deref()),
        })
    }

    /// Returns the holder and the rate limiter's key of credentials that were valid recently.
    pub(crate) fn find(&self, shown: &Credentials) -> Option<(Holder, LimitKey)> {
        let known = *self.known().get(&self.hash(shown))?;
        (known.since.elapsed() < LIFETIME).then_some((known.holder, known.key))
    }

    /// Remembers valid credentials.
    pub(crate) fn remember(&self, shown: &Credentials, viewer: &Viewer) {
        let known = Known { holder: viewer.holder(), key: viewer.limit_key(), since: Instant::now() };
        self.known().put(self.hash(shown), known);
    }

    /// Forgets credentials that are not valid any more.
    pub(crate) fn forget(&self, shown: &Credentials) {
        self.known().pop(&self.hash(shown));
    }

    fn known(&self) -> MutexGuard<'_, LruCache<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
