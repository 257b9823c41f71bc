//! The database of a command, and its opening. Only `galvo serve` and `galvo migrate` create one. Every other
//! command requires an existing database: in the wrong directory it would otherwise create an empty one
//! and find nothing in it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::{self, Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    config::CommonConfig,
    store::{MigrationError, Store, StoreError, StoreUrl, SystemStore},
};

/// The reason why the database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(
        "there is no database at {}: `galvo serve` or `galvo migrate` creates it; to use another one, set \
         --database-url (GALVO_DATABASE_URL)",
        .0.display()
    )]
    Absent(PathBuf),
    #[error(
        "there is no database at {}, and the URL does not allow creating one: append ?mode=rwc to it",
        .0.display()
    )]
    CreationNotAllowed(PathBuf),
    #[error("the directory {} for the database does not exist: create it", .0.display())]
    NoDirectory(PathBuf),
    #[error("the {0} is not migrated yet: run `galvo migrate`, or start the server once")]
    NotMigrated(StoreUrl),
    #[error(
        "another server uses {}{}: stop it, or set another database with --database-url \
         (GALVO_DATABASE_URL); several servers of one database need PostgreSQL",
        .0.display(),
        format_process(.1)
    )]
    InUse(PathBuf, Option<u32>),
    #[error("cannot lock the database against other servers: {}", .0.display())]
    Lock(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Migration(#[from] MigrationError),
    #[error("cannot open the {0}")]
    Store(StoreUrl, #[source] StoreError),
}

/// Opens an existing database and applies missing migrations.
pub(super) async fn open(common: &CommonConfig) -> Result<SystemStore, OpenError> {
    let url = &common.database;
    check_presence(url)?;
    let to_open_error = |error| OpenError::Store(url.clone(), error);
    let store = SystemStore::connect(url, common.connections).await.map_err(to_open_error)?;
    if !store.is_migrated().await.map_err(to_open_error)? {
        return Err(OpenError::NotMigrated(url.clone()));
    }
    Store::migrate(url).await?;
    Ok(store)
}

/// Checks that the file of an SQLite database exists.
pub(super) fn check_presence(url: &StoreUrl) -> Result<(), OpenError> {
    let StoreUrl::Sqlite { path, .. } = url else { return Ok(()) };
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(OpenError::Absent(to_absolute(path)))
        }
        // SQLite would turn an empty file into a database.
        Ok(file) if file.len() == 0 => Err(OpenError::NotMigrated(url.clone())),
        _ => Ok(()),
    }
}

/// Checks that an SQLite database exists or can be created.
pub(super) fn check_location(url: &StoreUrl) -> Result<(), OpenError> {
    let StoreUrl::Sqlite { path, create, .. } = url else { return Ok(()) };
    if !fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(());
    }
    let path = to_absolute(path);
    if let Some(directory) = path.parent().filter(|directory| !directory.is_dir()) {
        return Err(OpenError::NoDirectory(directory.to_owned()));
    }
    if *create { Ok(()) } else { Err(OpenError::CreationNotAllowed(path)) }
}

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "thiserror passes fields to format arguments by reference"
)]
fn format_process(id: &Option<u32>) -> String {
    id.map(|id| format!(" (process {id})")).unwrap_or_default()
}

/// The time to wait for the lock of a previous server, which may be shutting down.
const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(2);

/// The lock on a server's database. While it is held, no other server on this machine uses the database.
/// The operating system releases it when the process ends for any reason.
pub(super) struct StoreLock(#[expect(dead_code, reason = "holding it locks the file")] Option<File>);

/// Locks the database for `galvo serve`. Commands may run beside a server. Two servers with one SQLite
/// file are refused, because each would apply its own rate limits and publish only its own live updates.
pub(super) async fn lock_store(url: &StoreUrl) -> Result<StoreLock, OpenError> {
    let StoreUrl::Sqlite { path, .. } = url else { return Ok(StoreLock(None)) };
    // The lock is on a separate file: the system would release a POSIX lock on the database itself when the
    // process closes any other handle of it. The path is canonical, so that all paths to the database use the
    // same lock file.
    let store_path = fs::canonicalize(path).unwrap_or_else(|_| to_absolute(path));
    let mut lock_name = store_path.file_name().unwrap_or_default().to_owned();
    lock_name.push(".lock");
    let lock_path = store_path.with_file_name(lock_name);
    let to_lock_error = |error| OpenError::Lock(lock_path.clone(), error);
    let open_result =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&lock_path);
    let mut file = match open_result {
        Ok(file) => file,
        // A server must start on a full disk: its existing data can still be read.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            tracing::warn!(
                file = %lock_path.display(),
                "disk full: cannot create the lock file, so another server could use the same database"
            );
            return Ok(StoreLock(None));
        }
        Err(error) => return Err(to_lock_error(error)),
    };
    let deadline = Instant::now() + PREDECESSOR_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(TryLockError::WouldBlock) => {
                let mut process_id = String::new();
                let _ = file.read_to_string(&mut process_id);
                return Err(OpenError::InUse(store_path, process_id.trim().parse().ok()));
            }
            Err(TryLockError::Error(error)) => return Err(to_lock_error(error)),
        }
    }
    // The process ID serves only the error message of a second server. The lock itself guards the
    // database.
    let write_result = file.set_len(0).and_then(|()| file.rewind());
    // On a full disk the file holds no process ID.
    let _ = write_result.and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(StoreLock(Some(file)))
}

fn to_absolute(path: &Path) -> PathBuf {
    path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
