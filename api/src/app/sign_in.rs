//! Signing in with a name and a password, and changing the password.
//!
//! Hashing is bounded in number, since each takes memory and a core for a while; whoever failed lately is slowed by
//! address and name (`domain/sign_in_pace.rs`). A name that nobody has takes as long as one whose password is wrong.

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
use tokio::sync::Semaphore;

use crate::{
    auth::Session,
    blocking::blocking,
    clock::Clock,
    domain::{
        audit::{Actor, Origin},
        password::{Password, PasswordError},
        sign_in_pace::{Failures, one_address},
        slug::Slug,
    },
    store::{StoreError, SystemStore},
};

/// Who waits for a password to be hashed, at the most; more are told to come back.
const MAX_WAITING: usize = 64;

/// Who is held for what others tried, at the most; more are told to come back.
const MAX_HELD: usize = 64;

/// Addresses, and names, whose failures are remembered.
const MAX_REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is not zero");

/// Seconds after which somebody is told to come back when the server cannot know better.
const BUSY_SECONDS: u64 = 5;

/// Signs people in.
pub struct SignIns {
    store: SystemStore,
    clock: Arc<dyn Clock>,
    hashing: Hashing,
    held: Semaphore,
    by_address: Remembered<IpAddr>,
    by_name: Remembered<String>,
}

/// Why somebody is not signed in, or has no other password.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// There is no such user, or not with this password; it is not told which.
    #[error("the name or the password is wrong")]
    Wrong,
    /// Too much failed lately, or too many are at it.
    #[error("too many sign-ins failed lately: try again in {0} s")]
    TooSoon(u64),
    /// The text cannot become a password.
    #[error("a password {0}")]
    Password(#[from] PasswordError),
    /// The store did not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SignIns {
    /// Looks users up in `store`.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            clock,
            hashing: Hashing::default(),
            held: Semaphore::new(MAX_HELD),
            by_address: Remembered::default(),
            by_name: Remembered::default(),
        }
    }

    /// The user of a name, if the password is theirs.
    ///
    /// # Errors
    /// [`SignInError::Wrong`], [`SignInError::TooSoon`], or the store's.
    pub async fn user(&self, name: &str, password: String, from: IpAddr) -> Result<user::Model, SignInError> {
        let (from, name) = (one_address(from), name.parse::<Slug>().ok());
        // Who is not let in has to wait, whatever they tried: the name is not looked at. What is under way counts as failed
        // until it has not, or a hundred guesses at once would be as good as one.
        self.by_address.begin(from, self.now()).map_err(|wait| SignInError::TooSoon(seconds(wait)))?;
        let held = name.as_ref().map(|name| self.by_name.hold(name.to_string(), self.now()));
        let outcome = self.attempt(name.as_ref(), password, held.unwrap_or_default()).await;
        if matches!(outcome, Err(SignInError::Wrong)) {
            // Not the name: people type passwords where it belongs.
            tracing::info!(address = %from, "a sign-in failed");
        } else {
            self.by_address.take_back(&from);
            if let Some(name) = &name {
                self.by_name.take_back(name.as_str());
            }
        }
        outcome
    }

    /// The same, for somebody who is held for some milliseconds first because others tried the name.
    async fn attempt(
        &self,
        name: Option<&Slug>,
        password: String,
        held: i64,
    ) -> Result<user::Model, SignInError> {
        if held > 0 {
            let _place = self.held.try_acquire().map_err(|_| SignInError::TooSoon(BUSY_SECONDS))?;
            tokio::time::sleep(Duration::from_millis(held.unsigned_abs())).await;
        }
        let found = match name {
            Some(name) => self.store.password_by_name(name.as_str()).await?,
            None => None,
        };
        let (user, hash) = found.map_or((None, None), |(user, hash)| (Some(user), hash));
        // What nobody can have as a password is hashed like any other.
        let (password, can_be) = match Password::shown(password) {
            Some(password) => (password, true),
            None => (Password::shown("-".to_owned()).expect("it is short"), false),
        };
        let matches = self.hashing.run(move || password.matches(hash.as_deref())).await?;
        user.filter(|_| matches && can_be).ok_or(SignInError::Wrong)
    }

    /// Gives whoever has a session another password, who has to show the one before. All their other sessions end.
    ///
    /// # Errors
    /// As for [`Self::user`], and [`SignInError::Password`] when the new one cannot be one.
    pub async fn change_password(
        &self,
        session: &Session,
        old: String,
        new: String,
        origin: Origin,
    ) -> Result<(), SignInError> {
        let name = &session.user().name;
        let new = Password::chosen(new, name)?;
        let user = self.user(name, old, origin.address).await?;
        let hash = self.hashing.run(move || new.hash(&mut rand::rng())).await?;
        let by = Actor::in_browser(&user, origin, self.clock.timestamp());
        Ok(self.store.set_password(user.id, hash, Some(session.id()), &by).await?)
    }

    fn now(&self) -> i64 {
        self.clock.now().timestamp_millis()
    }
}

fn seconds(milliseconds: i64) -> u64 {
    milliseconds.unsigned_abs().div_ceil(1_000)
}

/// What lately failed, of so many at the most: of more, what was longest ago is forgotten.
struct Remembered<K: Hash + Eq>(Mutex<LruCache<K, Failures>>);

impl<K: Hash + Eq> Default for Remembered<K> {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_REMEMBERED)))
    }
}

impl<K: Hash + Eq> Remembered<K> {
    /// Counts a failure of somebody who has not to wait; otherwise tells for how many milliseconds they have to.
    fn begin(&self, key: K, now: i64) -> Result<(), i64> {
        self.change(key, |failures| match failures.wait_ms(now) {
            0 => {
                failures.add(now);
                Ok(())
            }
            wait => Err(wait),
        })
    }

    /// Counts a failure, and tells for how many milliseconds somebody is held because of those before.
    fn hold(&self, key: K, now: i64) -> i64 {
        self.change(key, |failures| {
            let hold = failures.hold_ms(now);
            failures.add(now);
            hold
        })
    }

    /// Counts one less.
    fn take_back<Q: Hash + Eq + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some(failures) = self.all().peek_mut(key) {
            failures.take_back();
        }
    }

    fn change<T>(&self, key: K, change: impl FnOnce(&mut Failures) -> T) -> T {
        change(self.all().get_or_insert_mut(key, Failures::default))
    }

    fn all(&self) -> MutexGuard<'_, LruCache<K, Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hashes passwords, on half of the cores at the most.
struct Hashing {
    places: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Default for Hashing {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { places: Arc::new(Semaphore::new((cores / 2).max(1))), waiting: Semaphore::new(MAX_WAITING) }
    }
}

impl Hashing {
    async fn run<T: Send + 'static>(
        &self,
        hash: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, SignInError> {
        let _waiting = self.waiting.try_acquire().map_err(|_| SignInError::TooSoon(BUSY_SECONDS))?;
        let place = Arc::clone(&self.places).acquire_owned().await.expect("nobody closes it");
        // The place goes along, because whoever waits may hang up meanwhile.
        let work = move || (hash(), place);
        Ok(blocking(work).await.0)
    }
}
