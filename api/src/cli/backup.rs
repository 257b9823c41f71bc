//! The command `galvo backup`. It produces a copy of an SQLite database that is complete and synced to
//! disk, or no file at all.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use super::store::{OpenError, check_presence};
use crate::{
    config::CommonConfig,
    key_ring::KeySource,
    store::{self, StoreError, StoreUrl},
};

/// The reason why there is no copy.
#[derive(Debug, thiserror::Error)]
pub(super) enum BackupError {
    #[error(
        "back up PostgreSQL with its own tools, for example pg_dump --format=custom --file=galvo.dump \
         \"$GALVO_DATABASE_URL\"; see docs/operating.md"
    )]
    Postgres,
    #[error("cannot copy the {0}")]
    Absent(StoreUrl, #[source] OpenError),
    #[error("{} already exists and is not overwritten", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    #[error("the path {} is not text in UTF-8", .0.display())]
    Name(PathBuf),
    #[error("cannot copy the {0}")]
    Copy(StoreUrl, #[source] StoreError),
    #[error("cannot read the copy")]
    Read(#[source] StoreError),
    #[error("the copy is damaged, so it was removed: {0}")]
    Fault(String),
}

/// Copies the database into a file that must not exist yet.
pub(super) async fn run(file: &Path, common: &CommonConfig) -> Result<(), BackupError> {
    let StoreUrl::Sqlite { options, .. } = &common.database else { return Err(BackupError::Postgres) };
    check_presence(&common.database).map_err(|error| BackupError::Absent(common.database.clone(), error))?;
    let write_error = |error| BackupError::Write(file.to_owned(), error);
    if fs::symlink_metadata(file).is_ok() {
        return Err(BackupError::Exists(file.to_owned()));
    }
    let partial_copy = PartialCopy::create_beside(file).map_err(write_error)?;
    let name = partial_copy.0.to_str().ok_or_else(|| BackupError::Name(file.to_owned()))?;
    let copy_error = |error| BackupError::Copy(common.database.clone(), error);
    store::maintenance::backup::copy_sqlite_store(options, name).await.map_err(copy_error)?;
    if let Some(fault) =
        store::maintenance::backup::find_file_fault(&partial_copy.0).await.map_err(BackupError::Read)?
    {
        return Err(BackupError::Fault(fault));
    }
    let bytes = partial_copy.finish(file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists(file.to_owned()),
        _ => write_error(error),
    })?;
    println!("{}: {bytes} bytes, checked", file.display());
    match &common.keys {
        Some(KeySource::File(keys) | KeySource::BesideStore(keys)) => println!(
            "the copy does not contain the keys: back up {} in another place; without it, encrypted data \
             cannot be read",
            keys.display()
        ),
        _ => println!(
            "the copy does not contain the keys: back them up in another place; without them, encrypted \
             data cannot be read"
        ),
    }
    Ok(())
}

/// A copy in progress, under a temporary name. Dropping it removes the file.
struct PartialCopy(PathBuf);

impl PartialCopy {
    /// Creates an empty file that only its owner can read: the copy contains text of exceptions from
    /// user programs.
    fn create_beside(file: &Path) -> io::Result<Self> {
        let directory = directory(file).canonicalize()?;
        let mut name = file.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let path = directory.join(name);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self(path))
    }

    /// Syncs the copy to disk and renames it to `file`. Returns its size in bytes.
    fn finish(self, file: &Path) -> io::Result<u64> {
        let copy = File::open(&self.0)?;
        // SQLite does not sync a copy to disk.
        copy.sync_all()?;
        match fs::hard_link(&self.0, file) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // Not every file system supports hard links. An empty file reserves the name there.
            Err(_) => {
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
                fs::rename(&self.0, file)?;
            }
        }
        File::open(directory(file))?.sync_all()?;
        Ok(copy.metadata()?.len())
    }
}

impl Drop for PartialCopy {
    fn drop(&mut self) {
        // After a rename this path no longer exists, so the error is ignored.
        let _ = fs::remove_file(&self.0);
    }
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
