//! Connections that have answered and stay outside of sqlx's pool for the next statement.
//!
//! sqlx's pool pings each connection that returns to it, which is a round trip to PostgreSQL or to SQLite's
//! thread. A connection whose response was read to its end needs no ping. It returns to the pool when it was
//! unused for a second or held for a minute, or when a transaction needs it. All other connections return at
//! once: those of transactions, of failed statements, and of statements that were dropped midway.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sqlx::{Connection, Database, Pool, pool::PoolConnection};

use super::stale_connections::ConnectionEpoch;
use crate::metrics::Connections;

/// The time for which an unused connection stays at hand. The server may have gone away meanwhile.
const MAX_UNUSED: Duration = Duration::from_secs(1);

/// The time limit of the ping of a connection that was unused.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// The time after which a connection returns to the pool even if it is always used. The pool closes the
/// connections that are too old.
const MAX_HELD: Duration = Duration::from_mins(1);

/// The connections that sqlx's pool counts as in use, although no statement uses them.
pub(super) struct ConnectionsAtHand<DB: Database> {
    pool: Pool<DB>,
    epoch: ConnectionEpoch,
    /// The connections, the one that was used last at the end.
    unused: Mutex<Vec<HeldConnection<DB>>>,
    /// The number of tasks that wait for a connection of the pool, or begin a transaction on it.
    claims: AtomicUsize,
}

/// A connection taken from sqlx's pool. Dropping it returns it to the pool.
pub(super) struct HeldConnection<DB: Database> {
    connection: PoolConnection<DB>,
    taken_at: Instant,
    used_at: Instant,
}

/// The claim of a task that waits for a connection of the pool. While any claim exists, connections return to
/// the pool after their statements.
pub(super) struct Claim<'a>(&'a AtomicUsize);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<DB: Database> HeldConnection<DB> {
    pub(super) fn as_mut(&mut self) -> &mut DB::Connection {
        &mut self.connection
    }
}

impl<DB: Database> ConnectionsAtHand<DB> {
    /// Creates the connections of a pool, and starts the task that returns unused ones to it.
    pub(super) fn new(pool: Pool<DB>, epoch: ConnectionEpoch) -> Arc<Self> {
        let at_hand = Self { pool, epoch, unused: Mutex::default(), claims: AtomicUsize::new(0) };
        let at_hand = Arc::new(at_hand);
        tokio::spawn(return_unused_connections(Arc::downgrade(&at_hand)));
        at_hand
    }

    /// Returns a connection at hand, or else one of the pool.
    pub(super) async fn take(&self) -> Result<HeldConnection<DB>, sqlx::Error> {
        if let Some(connection) = self.pop() {
            return Ok(connection);
        }
        let _claim = self.claim();
        // A connection may have been put at hand before the claim.
        if let Some(connection) = self.pop() {
            return Ok(connection);
        }
        // Before the pool compares the connection with the epoch, which may change at any time.
        let taken_at = Instant::now();
        let connection = self.pool.acquire().await?;
        Ok(HeldConnection { connection, taken_at, used_at: Instant::now() })
    }

    /// Keeps a connection at hand, or returns it to the pool if a task waits for one, if the pool is closed,
    /// or if it was held for too long. The response of its statement must have been read to the end.
    pub(super) fn put(&self, connection: HeldConnection<DB>) {
        let mut unused = self.lock_unused();
        let is_needed = self.claims.load(Ordering::SeqCst) > 0;
        if !is_needed && !self.pool.is_closed() && connection.taken_at.elapsed() < MAX_HELD {
            unused.push(HeldConnection { used_at: Instant::now(), ..connection });
        }
    }

    /// Claims a connection of the pool. If the pool has fewer idle connections than claims, one at hand
    /// returns to it.
    pub(super) fn claim_from_pool(&self) -> Claim<'_> {
        let claim = self.claim();
        // The claims are read first: a claim that has ended meanwhile has taken its idle connection.
        let claims = self.claims.load(Ordering::SeqCst);
        if self.count_idle_in_pool() < claims
            && let Some(returned) = self.lock_unused().pop()
        {
            self.return_to_pool(returned);
        }
        claim
    }

    fn claim(&self) -> Claim<'_> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        Claim(&self.claims)
    }

    /// Returns the connection that was used last. If it was unused for too long or is presumed dead, returns
    /// `None`, and all connections at hand return to the pool.
    fn pop(&self) -> Option<HeldConnection<DB>> {
        let mut unused = self.lock_unused();
        let last = unused.pop()?;
        if self.epoch.includes_connection(last.taken_at.elapsed()) {
            // The pool closes them without a ping.
            unused.clear();
            return None;
        }
        if last.used_at.elapsed() > MAX_UNUSED {
            let others = std::mem::take(&mut *unused);
            drop(unused);
            for held in others.into_iter().chain([last]) {
                self.return_to_pool(held);
            }
            return None;
        }
        Some(last)
    }

    /// Returns the connections to the pool that were unused for too long.
    fn return_unused(&self) {
        let mut unused = self.lock_unused();
        // They are in the order of their last use.
        let count = unused.partition_point(|held| held.used_at.elapsed() > MAX_UNUSED);
        let returned: Vec<_> = unused.drain(..count).collect();
        drop(unused);
        for held in returned {
            self.return_to_pool(held);
        }
    }

    /// Returns a connection to the pool that was unused. If its network was cut meanwhile, the pool's own
    /// ping, which has no time limit, would keep its place for as long as the operating system waits. After
    /// the time limit, the pool closes the connection.
    fn return_to_pool(&self, mut held: HeldConnection<DB>) {
        let epoch = self.epoch.clone();
        tokio::spawn(async move {
            // A connection that failed fails again in the pool, which closes it.
            let _ = epoch.with_timeout(PING_TIMEOUT, held.connection.ping()).await;
            drop(held);
        });
    }

    /// Returns all connections to the pool, which is closed.
    pub(super) fn return_all(&self) {
        self.lock_unused().clear();
    }

    /// Returns the current numbers of connections of the pool, which is for `purpose`.
    pub(super) fn connections(&self, purpose: &'static str) -> Connections {
        let unused = self.lock_unused().len();
        let open = self.pool.size() as usize;
        // A connection may return to the pool meanwhile.
        let idle = (self.count_idle_in_pool() + unused).min(open);
        let max = self.pool.options().get_max_connections() as usize;
        Connections { pool: purpose, idle, in_use: open - idle, max }
    }

    /// Returns the number of idle connections in the pool. sqlx counts a connection only after others may
    /// take it, so that its number is below zero for an instant.
    fn count_idle_in_pool(&self) -> usize {
        isize::try_from(self.pool.num_idle()).map_or(0, isize::unsigned_abs)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock_unused().len()
    }

    fn lock_unused(&self) -> MutexGuard<'_, Vec<HeldConnection<DB>>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns unused connections to the pool, until the pool is dropped.
async fn return_unused_connections<DB: Database>(at_hand: Weak<ConnectionsAtHand<DB>>) {
    loop {
        tokio::time::sleep(MAX_UNUSED).await;
        let Some(at_hand) = at_hand.upgrade() else { return };
        at_hand.return_unused();
    }
}

impl<DB: Database> Drop for ConnectionsAtHand<DB> {
    fn drop(&mut self) {
        let unused = self.unused.get_mut().unwrap_or_else(PoisonError::into_inner);
        for held in unused.drain(..) {
            // The return to the pool would need the asynchronous runtime, which may have ended already.
            drop(held.connection.leak());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use sqlx::{Sqlite, sqlite::SqliteConnectOptions};
    use tempfile::TempDir;

    use super::*;
    use crate::store::core::connect::sqlite;

    /// Takes a connection, changes its times, and puts it at hand.
    async fn use_connection(
        at_hand: &ConnectionsAtHand<Sqlite>,
        change: impl FnOnce(&mut HeldConnection<Sqlite>),
    ) {
        let mut connection = at_hand.take().await.expect("a connection");
        change(&mut connection);
        at_hand.put(connection);
    }

    #[tokio::test]
    async fn connections_return_to_the_pool_when_they_are_unused_or_old_or_presumed_dead() {
        let directory = TempDir::new().expect("a directory");
        let url = format!("sqlite://{}?mode=rwc", directory.path().join("store.db").display());
        let options = SqliteConnectOptions::from_str(&url).expect("a valid URL");
        let epoch = ConnectionEpoch::default();
        let at_hand = ConnectionsAtHand::new(sqlite(&options, 2).await.expect("a pool"), epoch.clone());
        let long_ago = Instant::now().checked_sub(MAX_HELD * 2).expect("the machine runs for minutes");

        use_connection(&at_hand, |_| ()).await;
        assert_eq!(at_hand.count(), 1);
        at_hand.lock_unused()[0].used_at = long_ago;
        assert!(at_hand.pop().is_none());
        assert_eq!(at_hand.count(), 0);

        use_connection(&at_hand, |_| ()).await;
        at_hand.return_unused();
        assert_eq!(at_hand.count(), 1);
        at_hand.lock_unused()[0].used_at = long_ago;
        at_hand.return_unused();
        assert_eq!(at_hand.count(), 0);

        use_connection(&at_hand, |held| held.taken_at = long_ago).await;
        assert_eq!(at_hand.count(), 0);

        use_connection(&at_hand, |_| ()).await;
        assert_eq!(at_hand.count(), 1);
        epoch.invalidate();
        assert!(at_hand.pop().is_none());
        assert_eq!(at_hand.count(), 0);

        let claim = at_hand.claim_from_pool();
        use_connection(&at_hand, |_| ()).await;
        assert_eq!(at_hand.count(), 0, "a task waits for a connection of the pool");
        drop(claim);
        use_connection(&at_hand, |_| ()).await;
        assert_eq!(at_hand.count(), 1);
    }
}
