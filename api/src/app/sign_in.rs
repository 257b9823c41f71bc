//! Signing in with a name and a password, and changing the password.
//!
//! Hashing is bounded in number, since each takes memory and a core for a while; whoever failed lately is slowed by
//! address and name (`domain/sign_in_pace.rs`). A name that nobody has takes as long as one whose password is wrong.

use std::{
    hash::Hash,
    net::IpAddr,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
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
        let from = one_address(from);
        // Who is not let in has to wait, whatever they tried; the name is not looked at.
        let wait = self.by_address.of(&from).wait_ms(self.now());
        if wait > 0 {
            return Err(SignInError::TooSoon(seconds(wait)));
        }
        let name = name.parse::<Slug>().ok();
        self.hold(name.as_ref()).await?;
        let found = match &name {
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
        match user {
            Some(user) if matches && can_be => Ok(user),
            _ => {
                let now = self.now();
                self.by_address.fail(from, now);
                if let Some(name) = name {
                    self.by_name.fail(name.to_string(), now);
                }
                // Not the name: people type passwords where it belongs.
                tracing::info!(address = %from, "a sign-in failed");
                Err(SignInError::Wrong)
            }
        }
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
        from: IpAddr,
    ) -> Result<(), SignInError> {
        let name = &session.user().name;
        let new = Password::chosen(new, name)?;
        let user = self.user(name, old, from).await?;
        let hash = self.hashing.run(move || new.hash(&mut rand::rng())).await?;
        let now = self.clock.timestamp();
        Ok(self.store.set_password(user.id, hash, Some(session.id()), now).await?)
    }

    /// Waits as long as somebody has to who tries a name that others failed with.
    async fn hold(&self, name: Option<&Slug>) -> Result<(), SignInError> {
        let Some(name) = name else { return Ok(()) };
        let hold = self.by_name.of(name.as_str()).hold_ms(self.now());
        if hold > 0 {
            let busy = |_| SignInError::TooSoon(BUSY_SECONDS);
            let _place = self.held.try_acquire().map_err(busy)?;
            tokio::time::sleep(Duration::from_millis(hold.unsigned_abs())).await;
        }
        Ok(())
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
    fn of<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Failures
    where
        K: std::borrow::Borrow<Q>,
    {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.peek(key).copied().unwrap_or_default()
    }

    fn fail(&self, key: K, now: i64) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get_or_insert_mut(key, Failures::default).add(now);
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
