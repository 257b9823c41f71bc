//! Connections that have answered and stay outside of sqlx's pool for the next statement.
//!
//! sqlx's pool pings each connection that returns to it, which is a round trip to PostgreSQL or to SQLite's
//! thread. A connection whose response was read to its end needs no ping. It returns to the pool if it is not
//! used again soon, or if a transaction needs it. All other connections return at once: those of
//! transactions, of failed statements, and of statements that were dropped midway.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sqlx::{Database, Pool, pool::PoolConnection};

use super::stale_connections::ConnectionEpoch;
use crate::metrics::Connections;

/// The time for which an unused connection stays at hand. The server may have gone away meanwhile, and a
/// return to the pool detects that.
const MAX_UNUSED: Duration = Duration::from_secs(1);

/// The time after which a connection returns to the pool even if it is always used. The pool closes the
/// connections that are too old.
const MAX_HELD: Duration = Duration::from_mins(1);

/// The connections that are not in sqlx's pool, although no statement uses them.
pub(super) struct ConnectionsAtHand<DB: Database> {
    pool: Pool<DB>,
    epoch: ConnectionEpoch,
    /// The connections, the one that was used last at the end.
    unused: Mutex<Vec<HeldConnection<DB>>>,
    /// The number of tasks that wait for a connection of the pool.
    claims: AtomicUsize,
}

/// A connection taken from sqlx's pool. Dropping it returns it to the pool.
pub(super) struct HeldConnection<DB: Database> {
    connection: PoolConnection<DB>,
    taken_at: Instant,
    used_at: Instant,
}

/// The claim of a task that waits for a connection of the pool. While there is one, no connection is put at
/// hand.
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
    pub(super) fn new(pool: Pool<DB>, epoch: ConnectionEpoch) -> Self {
        Self { pool, epoch, unused: Mutex::default(), claims: AtomicUsize::new(0) }
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
        let connection = self.pool.acquire().await?;
        let taken_at = Instant::now();
        Ok(HeldConnection { connection, taken_at, used_at: taken_at })
    }

    /// Keeps a connection at hand whose response was read to its end.
    pub(super) fn put(&self, connection: HeldConnection<DB>) {
        let mut unused = self.lock_unused();
        let is_needed = self.claims.load(Ordering::SeqCst) > 0;
        if !is_needed && !self.pool.is_closed() && connection.taken_at.elapsed() < MAX_HELD {
            unused.push(HeldConnection { used_at: Instant::now(), ..connection });
        }
    }

    /// Claims a connection of the pool, and returns one to it if it has too few for all claims.
    pub(super) fn claim_from_pool(&self) -> Claim<'_> {
        let claim = self.claim();
        if self.pool.num_idle() < self.claims.load(Ordering::SeqCst) {
            let returned = self.lock_unused().pop();
            drop(returned);
        }
        claim
    }

    fn claim(&self) -> Claim<'_> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        Claim(&self.claims)
    }

    /// Returns the connection that was used last. If that was long ago, all connections return to the pool.
    fn pop(&self) -> Option<HeldConnection<DB>> {
        let mut unused = self.lock_unused();
        let last = unused.pop()?;
        let is_stale = self.epoch.includes_connection(last.taken_at.elapsed());
        if is_stale || last.used_at.elapsed() > MAX_UNUSED {
            unused.clear();
            return None;
        }
        Some(last)
    }

    /// Returns all connections to the pool.
    pub(super) fn return_all(&self) {
        self.lock_unused().clear();
    }

    /// Returns the current numbers of connections of the pool, which is for `purpose`.
    pub(super) fn connections(&self, purpose: &'static str) -> Connections {
        let unused = self.lock_unused().len();
        let (open, idle) = (self.pool.size() as usize, self.pool.num_idle() + unused);
        let max = self.pool.options().get_max_connections() as usize;
        Connections { pool: purpose, idle, in_use: open.saturating_sub(idle), max }
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock_unused().len()
    }

    fn lock_unused(&self) -> MutexGuard<'_, Vec<HeldConnection<DB>>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
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
