//! Short statements on SQLite, run by the task that needs their rows.
//!
//! sqlx runs the statements of a connection on a separate thread, allocates each value, and sends the rows
//! back over a channel. For a statement of a tenth of a millisecond, this takes several times as long as the
//! statement itself. sqlx still runs the statements that turn out to be long, that have to wait for a lock,
//! or that fail. A statement can block its thread for ten milliseconds, or longer if single instructions are
//! slow.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use entity::Row;
use lru::LruCache;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use sea_orm::{DbErr, Statement, Value};

use super::connect::SQLITE_MMAP_BYTES;

/// The number of instructions of SQLite's virtual machine between two checks of the limits.
const INSTRUCTIONS_PER_CHECK: i32 = 1_000;

/// The largest number of checks of a short statement. SQLite executes 250,000 instructions in about four
/// milliseconds.
const MAX_CHECKS: u32 = 250;

/// The time limit of a short statement. Slow disks, large values and a busy machine reach it before the last
/// check.
const MAX_TIME: Duration = Duration::from_millis(10);

/// The time for which sqlx runs a statement that used all of its checks. The same statement is short for an
/// account with little data.
const LONG_FOR: Duration = Duration::from_mins(1);

/// The time for which sqlx runs a statement that reached the time limit or failed.
const UNSUITABLE_FOR: Duration = Duration::from_secs(1);

/// The number of statements to remember that sqlx runs.
const REMEMBERED_STATEMENTS: NonZeroUsize = NonZeroUsize::new(256).expect("a positive number");

/// The page cache of a connection, as SQLite expects it: a negative number of KiB. It holds the pages that
/// are not mapped into memory, see [`SQLITE_MMAP_BYTES`].
const CACHE_SIZE: i64 = -8_192;

/// The age at which a connection is closed. After the file was replaced, older connections read the old one.
const MAX_AGE: Duration = Duration::from_mins(30);

/// The time after which an unused connection is closed.
const MAX_UNUSED: Duration = Duration::from_mins(1);

/// The time of short statements for one unit of a task's budget. Tokio lets a task continue for 128 units,
/// which are a millisecond.
const TIME_PER_UNIT: Duration = Duration::from_micros(8);

/// The read-only connections for short statements.
pub(super) struct ShortReads {
    path: PathBuf,
    max_unused: usize,
    prepared_statements: usize,
    state: Mutex<State>,
}

struct State {
    /// The connections, the one that was used last at the end.
    unused: Vec<Reader>,
    /// The statements that sqlx runs, with the times until which it does.
    unsuitable: LruCache<String, Instant>,
    is_closed: bool,
}

struct Reader {
    connection: Connection,
    limits: Arc<Limits>,
    opened_at: Instant,
    used_at: Instant,
}

/// The limits of the current statement of a connection.
struct Limits {
    checks_left: AtomicU32,
    started_at: Mutex<Instant>,
}

impl ShortReads {
    /// Creates the connections for a database. They are opened when statements need them. At most
    /// `max_unused` of them stay open, each with at most `prepared_statements`.
    pub(super) fn new(path: &Path, max_unused: usize, prepared_statements: usize) -> Self {
        let unsuitable = LruCache::new(REMEMBERED_STATEMENTS);
        let state = Mutex::new(State { unused: Vec::new(), unsuitable, is_closed: false });
        Self { path: path.to_path_buf(), max_unused, prepared_statements, state }
    }

    /// Runs a statement and decodes its rows. Returns `None` if the statement is long or fails.
    pub(super) fn read<T>(
        &self,
        statement: &Statement,
        decode: impl Fn(&Row<'_>) -> Result<T, DbErr>,
    ) -> Option<Vec<T>> {
        let reader = self.take_reader(&statement.sql)?;
        match reader.read(statement, decode) {
            Ok(rows) => {
                self.put_back(reader);
                Some(rows)
            }
            Err(ReadError::Exceeded) => {
                // A statement that only waited for the disk or a processor may be short next time.
                let time = if reader.limits.has_used_all_checks() { LONG_FOR } else { UNSUITABLE_FOR };
                self.leave_to_sqlx(&statement.sql, time);
                self.put_back(reader);
                None
            }
            Err(ReadError::Sqlite(error)) => {
                // The connection is closed. sqlx runs the statement again and returns its own error.
                tracing::debug!(%error, sql = statement.sql, "a short read failed");
                self.leave_to_sqlx(&statement.sql, UNSUITABLE_FOR);
                None
            }
            Err(ReadError::Decode(error)) => {
                debug_assert!(false, "sqlx decodes this row: {error}, {}", statement.sql);
                None
            }
        }
    }

    /// Closes the connections. One that runs a statement is closed afterwards.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.unused.clear();
    }

    /// Returns a connection, or `None` if sqlx runs the statement or no connection can be opened.
    fn take_reader(&self, sql: &str) -> Option<Reader> {
        let mut state = self.lock();
        let is_unsuitable = state.unsuitable.get(sql).is_some_and(|until| Instant::now() < *until);
        if is_unsuitable || state.is_closed {
            return None;
        }
        let unused = state.unused.pop();
        drop(state);
        unused.filter(|reader| reader.opened_at.elapsed() < MAX_AGE).or_else(|| {
            let opened = Reader::open(&self.path, self.prepared_statements);
            opened.inspect_err(|error| tracing::debug!(%error, "no connection for short reads")).ok()
        })
    }

    /// Keeps a connection for the next statement, and closes those that were unused for too long.
    fn put_back(&self, reader: Reader) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        state.unused.push(Reader { used_at: Instant::now(), ..reader });
        let expired = state.unused.partition_point(|reader| reader.used_at.elapsed() > MAX_UNUSED);
        let excess = state.unused.len().saturating_sub(self.max_unused);
        let closed: Vec<_> = state.unused.drain(..expired.max(excess)).collect();
        drop(state);
        drop(closed);
    }

    /// Lets sqlx run a statement for some time.
    fn leave_to_sqlx(&self, sql: &str, time: Duration) {
        let (sql, until) = (sql.to_owned(), Instant::now() + time);
        self.lock().unsuitable.put(sql, until);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Uses up the budget of the current task for the time of a short statement. When nothing is left, the task
/// lets others run. Otherwise, a task of many statements would never wait, and so could not be cancelled.
pub(super) async fn use_budget(elapsed: Duration) {
    for _ in 0..=elapsed.as_nanos() / TIME_PER_UNIT.as_nanos() {
        tokio::task::coop::consume_budget().await;
    }
}

enum ReadError {
    /// The statement exceeded a limit.
    Exceeded,
    Sqlite(rusqlite::Error),
    Decode(DbErr),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Self::Exceeded,
            _ => Self::Sqlite(error),
        }
    }
}

impl Reader {
    fn open(path: &Path, prepared_statements: usize) -> rusqlite::Result<Self> {
        // Each connection is used by one thread at a time.
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // A statement that would have to wait for a lock is left to sqlx.
        connection.busy_timeout(Duration::ZERO)?;
        connection.pragma_update(None, "cache_size", CACHE_SIZE)?;
        connection.pragma_update(None, "mmap_size", SQLITE_MMAP_BYTES)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.set_prepared_statement_cache_capacity(prepared_statements);
        let now = Instant::now();
        let limits = Limits { checks_left: AtomicU32::new(MAX_CHECKS), started_at: Mutex::new(now) };
        let limits = Arc::new(limits);
        let checked_limits = Arc::clone(&limits);
        let is_exceeded = move || checked_limits.check_exceeded();
        connection.progress_handler(INSTRUCTIONS_PER_CHECK, Some(is_exceeded))?;
        Ok(Self { connection, limits, opened_at: now, used_at: now })
    }

    fn read<T>(
        &self,
        statement: &Statement,
        decode: impl Fn(&Row<'_>) -> Result<T, DbErr>,
    ) -> Result<Vec<T>, ReadError> {
        debug_assert!(!statement.sql.contains("$2"), "sqlx binds such parameters by their numbers");
        self.limits.reset();
        let mut prepared = self.connection.prepare_cached(&statement.sql)?;
        let values = statement.values.iter().flat_map(|values| &values.0);
        for (value, number) in values.zip(1..) {
            bind(&mut prepared, number, value)?;
        }
        let mut rows = prepared.raw_query();
        let mut decoded = Vec::new();
        while let Some(row) = rows.next()? {
            decoded.push(decode(&Row::Sqlite(row)).map_err(ReadError::Decode)?);
            // Large values take time, but few instructions.
            if self.limits.is_too_late() {
                return Err(ReadError::Exceeded);
            }
        }
        Ok(decoded)
    }
}

impl Limits {
    fn reset(&self) {
        self.checks_left.store(MAX_CHECKS, Ordering::Relaxed);
        *self.started_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn has_used_all_checks(&self) -> bool {
        self.checks_left.load(Ordering::Relaxed) == 0
    }

    /// Counts a check. Returns true if the statement exceeds a limit.
    fn check_exceeded(&self) -> bool {
        let checks_left = self.checks_left.load(Ordering::Relaxed);
        self.checks_left.store(checks_left.saturating_sub(1), Ordering::Relaxed);
        checks_left == 0 || self.is_too_late()
    }

    fn is_too_late(&self) -> bool {
        self.started_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > MAX_TIME
    }
}

/// Binds the parameter with this number, counted from 1, as sqlx binds it.
fn bind(statement: &mut rusqlite::Statement<'_>, number: usize, value: &Value) -> rusqlite::Result<()> {
    match value {
        Value::Bool(value) => statement.raw_bind_parameter(number, value),
        Value::Int(value) => statement.raw_bind_parameter(number, value),
        Value::BigInt(value) => statement.raw_bind_parameter(number, value),
        // Numbers of rows are unsigned.
        Value::BigUnsigned(value) => {
            let value = value.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
            statement.raw_bind_parameter(number, value)
        }
        Value::Double(value) => statement.raw_bind_parameter(number, value),
        Value::String(value) => statement.raw_bind_parameter(number, value),
        Value::Bytes(value) => statement.raw_bind_parameter(number, value),
        Value::Uuid(value) => {
            statement.raw_bind_parameter(number, value.as_ref().map(|uuid| uuid.as_bytes().as_slice()))
        }
        _ => {
            debug_assert!(false, "sqlx binds this value: {value:?}");
            Err(rusqlite::Error::ToSqlConversionFailure("a value of another type".into()))
        }
    }
}

#[cfg(test)]
mod tests;
