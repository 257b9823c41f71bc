//! Signing in with a name and a password, and changing the password.
//!
//! Concurrent hashing is bounded, since each hash takes memory and a core for a while. Failed attempts
//! slow down further attempts from their address and at their name (`domain/sign_in_throttle.rs`); only
//! those with both the same address and the same name are refused for a while. An unknown name takes as
//! long as a wrong password. A browser in which the user signed in before has its own limit, independent
//! of other attempts from its address or for its name.

use std::{
    borrow::Borrow,
    hash::Hash,
    net::IpAddr,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use entity::user;
use lru::LruCache;
use uuid::Uuid;

use crate::{
    auth::Session,
    blocking_work::{cores, run_at_usual_priority},
    clock::Clock,
    domain::{
        audit::{Actor, Origin},
        device::Device,
        password::{Password, PasswordError},
        sign_in_throttle::{AddressTurns, FailureCount, failure_address},
        slug::Slug,
    },
    shares::{FairShares, Holder, Slots, wait_and_give_way},
    store::{StoreError, SystemStore},
};

/// The maximum number of attempts that wait for hashing. Further attempts are rejected with a retry
/// delay.
const MAX_WAITING: usize = 64;

/// The maximum time an attempt waits for hashing.
const HASHING_TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum number of delayed attempts, after failures with the same name or address. Further attempts
/// are rejected with a retry delay.
const MAX_DELAYED: usize = 64;

/// The maximum number of addresses, browsers and names whose failures are remembered, each, and of pairs of
/// an address and a name.
const MAX_REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is not zero");

/// The retry delay, in seconds, if the server cannot compute one.
const BUSY_SECONDS: u64 = 5;

/// The password check of sign-ins.
pub struct SignIns {
    store: SystemStore,
    clock: Arc<dyn Clock>,
    hashing: Hashing,
    delayed_attempts: Slots,
    by_pair: FailureCache<(IpAddr, Option<String>)>,
    by_address: FailureCache<IpAddr, AddressTurns>,
    by_device: FailureCache<Uuid>,
    by_name: FailureCache<String>,
}

/// The reason why a sign-in or a password change failed.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The name or the password is wrong. The error does not reveal which.
    #[error("the name or the password is wrong")]
    Wrong,
    /// Too many attempts failed lately, or too many are in progress. The value is the retry delay, in
    /// seconds.
    #[error("too many failed sign-ins: try again in {0} s")]
    TooSoon(u64),
    /// The text is not a valid password.
    #[error("a password {0}")]
    Password(#[from] PasswordError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SignIns {
    /// Returns a check against the users in `store`.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>) -> Self {
        let shares = store.shares().clone();
        Self {
            store,
            clock,
            hashing: Hashing::new(&shares),
            delayed_attempts: shares.slots("sign_ins_held", MAX_DELAYED),
            by_pair: FailureCache::default(),
            by_address: FailureCache::default(),
            by_device: FailureCache::default(),
            by_name: FailureCache::default(),
        }
    }

    /// Returns the user with this name if the password matches. `device` is the known browser, if any.
    ///
    /// # Errors
    /// Returns [`SignInError::Wrong`], [`SignInError::TooSoon`], or an error of the store.
    pub async fn authenticate_user(
        &self,
        name: &str,
        password: String,
        from: IpAddr,
        device: Option<Device>,
    ) -> Result<user::Model, SignInError> {
        let (from, name) = (failure_address(from), name.parse::<Slug>().ok());
        // Counted by address: a guesser can use many names, but few addresses.
        let holder = Holder::for_unauthenticated(from, 0);
        // A known browser counts only for its own user. Otherwise a user could use it to guess the
        // passwords of others.
        let known_device =
            device.filter(|device| name.as_ref().is_some_and(|name| name.as_str() == device.user));
        if let Some(Device { id, .. }) = known_device {
            self.by_device
                .count_unless_blocked(id, self.now())
                .map_err(|wait| SignInError::TooSoon(seconds(wait)))?;
            let outcome = self.check(name.as_ref(), password, holder).await;
            if matches!(outcome, Err(SignInError::Wrong)) {
                tracing::info!(address = %from, "sign-in failed in a known browser");
            } else {
                self.by_device.remove_failure(&id);
            }
            return outcome;
        }
        // An attempt counts as failed while it is in progress; otherwise a hundred concurrent guesses would
        // count as one. All texts that cannot be names count as one.
        let (now, too_soon) = (self.now(), |wait| SignInError::TooSoon(seconds(wait)));
        let pair = (from, name.as_ref().map(Slug::to_string));
        self.by_pair.count_unless_blocked(pair.clone(), now).map_err(too_soon)?;
        let address_delay = self.by_address.change(from, |turns| turns.take_turn(now));
        let address_delay = address_delay.map_err(|wait| {
            self.by_pair.remove_failure(&pair);
            too_soon(wait)
        })?;
        let name_delay = name.as_ref().map(|name| self.by_name.count_and_delay(name.to_string(), now));
        let mut counted_attempt = CountedAttempt { sign_ins: self, pair, has_failed: false };
        self.delay(address_delay.max(name_delay.unwrap_or_default()), holder).await?;
        // A client that disconnects while the password is checked has failed.
        counted_attempt.has_failed = true;
        let outcome = self.check(name.as_ref(), password, holder).await;
        counted_attempt.has_failed = matches!(outcome, Err(SignInError::Wrong));
        if counted_attempt.has_failed {
            // The name is not logged, because people type passwords into the wrong field.
            tracing::info!(address = %from, "sign-in failed");
        }
        outcome
    }

    /// Delays an attempt by some milliseconds because of earlier failures.
    async fn delay(&self, milliseconds: i64, holder: Holder) -> Result<(), SignInError> {
        if milliseconds <= 0 {
            return Ok(());
        }
        let _slot = self.delayed_attempts.try_take(holder).map_err(|_| SignInError::TooSoon(BUSY_SECONDS))?;
        // The delayed attempts of many addresses would otherwise take all slots of sign-ins.
        wait_and_give_way(tokio::time::sleep(Duration::from_millis(milliseconds.unsigned_abs()))).await;
        Ok(())
    }

    /// Checks a password.
    async fn check(
        &self,
        name: Option<&Slug>,
        password: String,
        holder: Holder,
    ) -> Result<user::Model, SignInError> {
        let stored = match name {
            Some(name) => self.store.password_by_name(name.as_str()).await?,
            None => None,
        };
        let (user, hash) = stored.map_or((None, None), |(user, hash)| (Some(user), hash));
        // A text that is not a valid password still takes the time of a hash.
        let (password, is_possible) = match Password::from_login(password) {
            Some(password) => (password, true),
            None => (Password::from_login("-".to_owned()).expect("it is short"), false),
        };
        let matches = self.hashing.run(holder, move || password.matches(hash.as_deref())).await?;
        user.filter(|_| matches && is_possible).ok_or(SignInError::Wrong)
    }

    /// Changes the password of a session's user, who must enter the old one. All other sessions of the
    /// user end.
    ///
    /// # Errors
    /// Returns the errors of [`Self::authenticate_user`], and [`SignInError::Password`] if the new
    /// password is not valid.
    #[expect(clippy::missing_panics_doc, reason = "a session ID is a hash of 32 bytes")]
    pub async fn change_password(
        &self,
        session: &Session,
        old_password: String,
        new_password: String,
        origin: Origin,
    ) -> Result<(), SignInError> {
        let name = &session.user().name;
        let new_password = Password::new_for(new_password, name)?;
        // A session is at least as trustworthy as a known browser.
        let digits = *session.id().first_chunk().expect("a session is stored under 32 bytes");
        let device = Device { id: Uuid::from_bytes(digits), user: name.clone(), since: self.now() };
        let user = self.authenticate_user(name, old_password, origin.address, Some(device)).await?;
        let holder = Holder::for_unauthenticated(failure_address(origin.address), 0);
        let hash = self.hashing.run(holder, move || new_password.hash(&mut rand::rng())).await?;
        let actor = Actor::in_browser(&user, origin, self.clock.timestamp());
        Ok(self.store.set_password(user.id, hash, Some(session.id()), &actor).await?)
    }

    fn now(&self) -> i64 {
        self.clock.now().timestamp_millis()
    }
}

/// An attempt that was counted as failed in advance. The count is taken back unless the attempt has failed:
/// also if it gives way or its client leaves before a password was checked, because others could otherwise
/// lengthen the delays of a user who is waiting.
struct CountedAttempt<'a> {
    sign_ins: &'a SignIns,
    pair: (IpAddr, Option<String>),
    has_failed: bool,
}

impl Drop for CountedAttempt<'_> {
    fn drop(&mut self) {
        if self.has_failed {
            return;
        }
        let (from, name) = &self.pair;
        self.sign_ins.by_pair.remove_failure(&self.pair);
        self.sign_ins.by_address.change(*from, AddressTurns::remove_one);
        if let Some(name) = name {
            self.sign_ins.by_name.remove_failure(name.as_str());
        }
    }
}

fn seconds(milliseconds: i64) -> u64 {
    milliseconds.unsigned_abs().div_ceil(1_000)
}

/// Recent failures by key. If there are too many keys, the least recently used are evicted.
struct FailureCache<K: Hash + Eq, V = FailureCount>(Mutex<LruCache<K, V>>);

impl<K: Hash + Eq, V> Default for FailureCache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_REMEMBERED)))
    }
}

impl<K: Hash + Eq, V: Default> FailureCache<K, V> {
    fn change<T>(&self, key: K, change: impl FnOnce(&mut V) -> T) -> T {
        change(self.lock().get_or_insert_mut(key, V::default))
    }
}

impl<K: Hash + Eq, V> FailureCache<K, V> {
    fn lock(&self) -> MutexGuard<'_, LruCache<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq> FailureCache<K> {
    /// Counts a failure in advance. Returns the remaining wait in milliseconds, without counting, if the
    /// key is blocked.
    fn count_unless_blocked(&self, key: K, now: i64) -> Result<(), i64> {
        self.change(key, |failures| match failures.retry_delay_ms(now) {
            0 => {
                failures.add(now);
                Ok(())
            }
            wait => Err(wait),
        })
    }

    /// Counts a failure in advance. Returns the delay caused by the previous failures, in milliseconds.
    fn count_and_delay(&self, key: K, now: i64) -> i64 {
        self.change(key, |failures| {
            let delay = failures.admission_delay_ms(now);
            failures.add(now);
            delay
        })
    }

    /// Removes one failure, after a successful attempt.
    fn remove_failure<Q: Hash + Eq + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some(failures) = self.lock().peek_mut(key) {
            failures.remove_one();
        }
    }
}

/// Password hashing on at most half of the cores.
struct Hashing {
    slots: Slots,
    waiting: Slots,
}

impl Hashing {
    fn new(shares: &FairShares) -> Self {
        let slots = shares.slots("password_hashes", (cores() / 2).max(1));
        Self { slots, waiting: shares.slots("password_hashes_waiting", MAX_WAITING) }
    }

    async fn run<T: Send + 'static>(
        &self,
        holder: Holder,
        hash: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SignInError> {
        let busy = |_| SignInError::TooSoon(BUSY_SECONDS);
        let _waiting = self.waiting.try_take(holder).map_err(busy)?;
        let slot = self.slots.take(holder, HASHING_TIMEOUT).await.map_err(busy)?;
        // The slots move into the closure, because the caller may be dropped in the meantime.
        let work = move || (hash(), slot);
        Ok(run_at_usual_priority(work).await.0)
    }
}
