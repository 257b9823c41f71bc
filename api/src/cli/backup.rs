//! What `galvo backup` does: a copy of an SQLite store that is whole and on disk, or none.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::{
    config::CommonConfig,
    key_ring::KeySource,
    store::{self, StoreError, StoreUrl},
};

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub(super) enum BackupError {
    #[error(
        "PostgreSQL is copied with its own programs, as in pg_dump --format=custom --file=galvo.dump \"$GALVO_DATABASE_URL\"; \
         docs/operating.md has the rest"
    )]
    Postgres,
    #[error("{} is there already, and is not overwritten", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    #[error("the path {} is not text in UTF-8", .0.display())]
    Name(PathBuf),
    #[error("cannot copy the {0}")]
    Copy(StoreUrl, #[source] StoreError),
    #[error("cannot read the copy")]
    Read(#[source] StoreError),
    #[error("the copy is not whole, so it was removed: {0}")]
    Fault(String),
}

/// Copies the store into a file that is not there yet.
pub(super) async fn run(file: &Path, common: &CommonConfig) -> Result<(), BackupError> {
    let StoreUrl::Sqlite { options, .. } = &common.database else { return Err(BackupError::Postgres) };
    let writing = |error| BackupError::Write(file.to_owned(), error);
    if fs::symlink_metadata(file).is_ok() {
        return Err(BackupError::Exists(file.to_owned()));
    }
    let unfinished = Unfinished::beside(file).map_err(writing)?;
    let name = unfinished.0.to_str().ok_or_else(|| BackupError::Name(file.to_owned()))?;
    let copying = |error| BackupError::Copy(common.database.clone(), error);
    store::backup::copy(options, name).await.map_err(copying)?;
    if let Some(fault) = store::backup::fault(&unfinished.0).await.map_err(BackupError::Read)? {
        return Err(BackupError::Fault(fault));
    }
    let bytes = unfinished.finish(file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists(file.to_owned()),
        _ => writing(error),
    })?;
    println!("{}: {bytes} bytes, checked", file.display());
    match &common.keys {
        Some(KeySource::File(keys) | KeySource::BesideStore(keys)) => println!(
            "the keys are not in it: keep a copy of {} too, in another place; without it nothing encrypted can be read",
            keys.display()
        ),
        _ => println!(
            "the keys are not in it: keep a copy of them too, in another place; without them nothing encrypted can be read"
        ),
    }
    Ok(())
}

/// A copy that is being made, under another name. It is removed when it is dropped.
struct Unfinished(PathBuf);

impl Unfinished {
    /// An empty file for its owner alone: what programs wrote into exceptions will be in it.
    fn beside(file: &Path) -> io::Result<Self> {
        let directory = directory(file).canonicalize()?;
        let mut name = file.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
        name.push(format!(".{}.new", std::process::id()));
        let path = directory.join(name);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self(path))
    }

    /// Gives it its name, once it is on disk. Returns how large it is.
    fn finish(self, file: &Path) -> io::Result<u64> {
        let copy = File::open(&self.0)?;
        // SQLite leaves that to whoever asked for the copy.
        copy.sync_all()?;
        match fs::hard_link(&self.0, file) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // Not every file system has links. An empty file keeps the name for it.
            Err(_) => {
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
                fs::rename(&self.0, file)?;
            }
        }
        File::open(directory(file))?.sync_all()?;
        Ok(copy.metadata()?.len())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Where it has got its name, and no other, it is gone already.
        let _ = fs::remove_file(&self.0);
    }
}

fn directory(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
