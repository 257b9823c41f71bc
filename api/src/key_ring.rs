//! The source of the encryption keys, and their reload while a server runs.
//!
//! A key file is replaced by an atomic rename and never written in place: a lost key makes everything it
//! encrypted unreadable. This module handles files. It uses the database only to check for encrypted rows and
//! to forget unused keys.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

use chrono::TimeDelta;

use crate::{
    encryption::{DecryptError, Encrypted, KeyId, Keys, KeysError},
    error::Chain,
    store::{StoreError, SystemStore},
};

/// The time within which every server has reread the key file. Until then other servers may encrypt with
/// the older key.
pub(crate) const KEY_PROPAGATION_TIME: TimeDelta = TimeDelta::minutes(5);

/// The minimum interval between two reads of the file because of a missing key.
const MIN_REREAD_INTERVAL: Duration = Duration::from_secs(2);

/// The location of the keys.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// The value of the setting.
    Ring(Keys),
    /// A file that must exist.
    File(PathBuf),
    /// The file beside an SQLite database. It is created if nothing is encrypted yet.
    BesideStore(PathBuf),
}

/// The reason why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key file {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file is not a valid key file.
    #[error("the key file {} is not valid", .0.display())]
    Invalid(PathBuf, #[source] KeysError),
    /// The file cannot be written.
    #[error("cannot write the key file {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// The file is missing, but encrypted rows exist.
    #[error(
        "the key file {} is missing, but the database contains data encrypted with it: restore the file \
         from its backup",
        .0.display()
    )]
    Lost(PathBuf),
    /// The database does not answer.
    #[error("cannot check the database for encrypted data")]
    Store(#[from] StoreError),
}

impl KeySource {
    /// Returns the path of the key file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Ring(_) => None,
            Self::File(path) | Self::BesideStore(path) => Some(path),
        }
    }

    /// Reads the current keys. `None` if the file does not exist.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a key file.
    pub fn read(&self) -> Result<Option<Keys>, KeyError> {
        match self {
            Self::Ring(keys) => Ok(Some(keys.clone())),
            Self::File(path) | Self::BesideStore(path) => match read(path) {
                Err(KeyError::Read(_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                keys => keys.map(Some),
            },
        }
    }

    /// Returns the key ring of a server. Creates the file beside an SQLite database if nothing is
    /// encrypted yet.
    ///
    /// # Errors
    /// [`KeyError`]
    pub async fn open(&self, store: &SystemStore) -> Result<KeyRing, KeyError> {
        let keys = match (self.read()?, self) {
            (Some(keys), _) => keys,
            (None, Self::BesideStore(path)) => {
                if store.has_sealed_rows().await? {
                    return Err(KeyError::Lost(path.clone()));
                }
                // The lost keys encrypted no existing row, so their records can go.
                store.forget_keys().await?;
                create(path)?
            }
            (None, Self::File(path)) => {
                return Err(KeyError::Read(path.clone(), io::ErrorKind::NotFound.into()));
            }
            (None, Self::Ring(keys)) => keys.clone(),
        };
        if let Some(path) = self.file()
            && fs::metadata(path).is_ok_and(|file| file.mode() & 0o077 != 0)
        {
            tracing::warn!(
                file = %path.display(),
                "the key file is readable by other users; restrict it with chmod 600"
            );
        }
        Ok(KeyRing(Arc::new(Shared {
            keys: RwLock::new(keys),
            file: self.file().map(Path::to_owned),
            read_at: Mutex::new(None),
        })))
    }
}

/// The keys of a running server, reloaded from their file. Clones share them.
#[derive(Clone, Debug)]
pub struct KeyRing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    keys: RwLock<Keys>,
    file: Option<PathBuf>,
    /// The time of the last read caused by a missing key.
    read_at: Mutex<Option<Instant>>,
}

impl KeyRing {
    /// Returns the current keys.
    #[must_use]
    pub fn keys(&self) -> Keys {
        self.0.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Encrypts `plain`. `row` identifies the row and is the associated data.
    #[must_use]
    pub fn seal(&self, row: &[u8], plain: &[u8]) -> Encrypted {
        self.keys().encrypt_for_row(row, plain)
    }

    /// Decrypts data of the row that `row` identifies. Rereads the key file if the key is missing.
    ///
    /// # Errors
    /// [`DecryptError`]
    pub fn open(&self, row: &[u8], key_id: i64, bytes: &[u8]) -> Result<Vec<u8>, DecryptError> {
        match self.keys().decrypt_for_row(row, key_id, bytes) {
            Err(DecryptError::KeyMissing(_)) if self.reload_for_key(key_id) => {
                self.keys().decrypt_for_row(row, key_id, bytes)
            }
            outcome => outcome,
        }
    }

    /// Reads the key file. `None` if it holds the keys in use, or there is no file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read. The keys in use do not change.
    pub fn read_if_changed(&self) -> Result<Option<Keys>, KeyError> {
        let Some(file) = &self.0.file else { return Ok(None) };
        let keys = read(file)?;
        Ok(Some(keys).filter(|keys| !keys.ids().eq(self.keys().ids())))
    }

    /// Replaces the keys in use.
    pub fn replace_keys(&self, keys: Keys) {
        *self.0.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Rereads the file and returns true if the key is now in the ring. The encrypting key stays the
    /// same if it is still in the file: a new key must be recorded in the database before it encrypts
    /// anything.
    fn reload_for_key(&self, key_id: i64) -> bool {
        let mut read_at = self.0.read_at.lock().unwrap_or_else(PoisonError::into_inner);
        if read_at.is_some_and(|at| at.elapsed() < MIN_REREAD_INTERVAL) {
            return self.keys().ids().any(|id| id == key_id);
        }
        *read_at = Some(Instant::now());
        match self.read_if_changed() {
            Ok(Some(keys)) => self.replace_keys(keys.with_primary(self.keys().primary())),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(
                    error = %Chain(&error),
                    "failed to reload the key file; the current keys stay in use"
                );
            }
        }
        self.keys().ids().any(|id| id == key_id)
    }
}

impl From<Keys> for KeyRing {
    /// Returns a ring that is never reloaded.
    fn from(keys: Keys) -> Self {
        Self(Arc::new(Shared { keys: RwLock::new(keys), file: None, read_at: Mutex::new(None) }))
    }
}

/// Logs a key that encrypted rows need, or may need, and that is not in the ring.
pub(crate) fn log_missing_key(key: i64) {
    tracing::error!(
        key = %KeyId(key),
        "an encryption key is missing: its data cannot be read until the key is restored to the key ring"
    );
}

/// Changes the keys in a file. The file is replaced atomically and keeps its owner and mode. A lock
/// serializes processes, so that each sees the changes of the others.
///
/// # Errors
/// [`KeyError`]. The file is then unchanged.
pub fn update_key_file<E: From<KeyError>>(
    path: &Path,
    change: impl FnOnce(Keys) -> Result<Keys, E>,
) -> Result<Keys, E> {
    let to_read_error = |error| KeyError::Read(path.to_owned(), error);
    // Resolves symbolic links, so that a link is not replaced by a file.
    let path = path.canonicalize().map_err(to_read_error)?;
    let locked_file = open_locked(&path).map_err(|error| KeyError::Read(path.clone(), error))?;
    let keys = change(read(&path)?)?;
    replace(&path, &locked_file, &keys).map_err(|error| KeyError::Write(path.clone(), error))?;
    Ok(keys)
}

fn read(path: &Path) -> Result<Keys, KeyError> {
    let text = fs::read_to_string(path).map_err(|error| KeyError::Read(path.to_owned(), error))?;
    text.parse().map_err(|error| KeyError::Invalid(path.to_owned(), error))
}

/// Creates a file with one new key, readable by its owner only. If another process creates the file
/// first, reads that file instead.
fn create(path: &Path) -> Result<Keys, KeyError> {
    let keys = Keys::generate();
    let to_write_error = |error| KeyError::Write(path.to_owned(), error);
    let new_path = write_new_file(path, &keys, 0o600).map_err(to_write_error)?;
    // Unlike a rename, a hard link never replaces an existing file.
    let link_result = fs::hard_link(&new_path, path);
    fs::remove_file(&new_path).map_err(to_write_error)?;
    match link_result {
        Ok(()) => {
            sync_directory(path).map_err(to_write_error)?;
            tracing::info!(
                file = %path.display(),
                "created a key file; back it up, because encrypted data in the database is lost without it"
            );
            Ok(keys)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(to_write_error(error)),
    }
}

fn replace(path: &Path, locked_file: &File, keys: &Keys) -> io::Result<()> {
    let old_metadata = locked_file.metadata()?;
    let new_path = write_new_file(path, keys, 0o600)?;
    let result = (|| {
        let new_metadata = fs::metadata(&new_path)?;
        if (new_metadata.uid(), new_metadata.gid()) != (old_metadata.uid(), old_metadata.gid()) {
            chown(&new_path, Some(old_metadata.uid()), Some(old_metadata.gid()))?;
        }
        fs::set_permissions(&new_path, fs::Permissions::from_mode(old_metadata.mode() & 0o7777))?;
        fs::rename(&new_path, path)?;
        sync_directory(path)
    })();
    if result.is_err() {
        // Best effort. The error that led here is more useful.
        let _ = fs::remove_file(&new_path);
    }
    result
}

/// Writes the keys to a new file beside `path` and syncs it to disk.
fn write_new_file(path: &Path, keys: &Keys, mode: u32) -> io::Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new_path = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new_path)?;
    let write_result = file.write_all(keys.reveal().as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = write_result {
        let _ = fs::remove_file(&new_path);
        return Err(error);
    }
    Ok(new_path)
}

/// Opens the file at `path` with an exclusive lock.
fn open_locked(path: &Path) -> io::Result<File> {
    loop {
        let file = File::open(path)?;
        file.lock()?;
        // The previous holder of the lock may have replaced the file.
        if file.metadata()?.ino() == fs::metadata(path)?.ino() {
            return Ok(file);
        }
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_once_and_changed_as_a_whole() {
        let directory = std::env::temp_dir().join(format!("galvo-key-{}", uuid::Uuid::now_v7()));
        fs::create_dir(&directory).expect("a directory");
        let path = directory.join("store.key");
        let first = create(&path).expect("a file");
        let again = create(&path).expect("the same file");
        assert_eq!(first.primary(), again.primary(), "it is not overwritten");
        assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("its mode changes");
        let ring: KeyRing = KeyRing(Arc::new(Shared {
            keys: RwLock::new(first.clone()),
            file: Some(path.clone()),
            read_at: Mutex::new(None),
        }));
        let rotated = update_key_file::<KeyError>(&path, |keys| Ok(keys.rotated())).expect("it is changed");
        assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o640, "its mode stays");
        assert_eq!(fs::read_dir(&directory).expect("it is there").count(), 1, "nothing else is left");

        let sealed = rotated.encrypt_for_row(b"row", b"text");
        assert_eq!(ring.open(b"row", sealed.key_id, &sealed.bytes).as_deref(), Ok(&b"text"[..]));
        assert_eq!(ring.keys().primary(), first.primary(), "a key that is not written down encrypts nothing");
        let changed = ring.read_if_changed().expect("it is read").expect("it is another order");
        ring.replace_keys(changed);
        assert_eq!(ring.keys().primary(), rotated.primary());
        fs::remove_dir_all(&directory).expect("it goes");
    }
}
