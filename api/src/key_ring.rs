//! Where the keys are, and how a server keeps up with them.
//!
//! Files are replaced as a whole and never overwritten: a key that is lost takes everything with it that it
//! encrypted. Knows files, and of the store only whether it needs a key that is not there.

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
    error::Chain,
    seal::{KeyId, Keys, KeysError, SealError, Sealed},
    store::{StoreError, SystemStore},
};

/// Another server may go on with the older key for so long, until it has read the key file again.
pub(crate) const OTHERS_FOLLOW_WITHIN: TimeDelta = TimeDelta::minutes(5);

/// A file is not read again for a missing key within this time.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Where the operator keeps the keys.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// In the settings themselves.
    Ring(Keys),
    /// In a file that has to be there.
    File(PathBuf),
    /// In the file beside an SQLite store, which is made when nothing is encrypted yet.
    BesideStore(PathBuf),
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key file {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The file has something else in it.
    #[error("the key file {} is not one", .0.display())]
    Wrong(PathBuf, #[source] KeysError),
    /// The file cannot be written.
    #[error("cannot write the key file {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// The file is gone and encrypted rows are not.
    #[error(
        "the key file {} is missing, and the store holds what was encrypted with it: put the file back from \
         its backup",
        .0.display()
    )]
    Lost(PathBuf),
    /// The store could not be asked.
    #[error("cannot look for what is encrypted")]
    Store(#[from] StoreError),
}

impl KeySource {
    /// The file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Ring(_) => None,
            Self::File(path) | Self::BesideStore(path) => Some(path),
        }
    }

    /// The keys as they are now; none when there is no file yet.
    ///
    /// # Errors
    /// When a file cannot be read or is not a key file.
    pub fn read(&self) -> Result<Option<Keys>, KeyError> {
        match self {
            Self::Ring(keys) => Ok(Some(keys.clone())),
            Self::File(path) | Self::BesideStore(path) => match read(path) {
                Err(KeyError::Read(_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                keys => keys.map(Some),
            },
        }
    }

    /// The keys a server works with. The file beside a store in which nothing is encrypted is made.
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
                // What the lost file held encrypted nothing that is still there.
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
            tracing::warn!(file = %path.display(), "others than its owner may read the key file");
        }
        Ok(KeyRing(Arc::new(Shared {
            keys: RwLock::new(keys),
            file: self.file().map(Path::to_owned),
            read_at: Mutex::new(None),
        })))
    }
}

/// The keys of a running server, which follow their file. Clones share them.
#[derive(Clone, Debug)]
pub struct KeyRing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    keys: RwLock<Keys>,
    file: Option<PathBuf>,
    /// When the file was last read because a key was missing.
    read_at: Mutex<Option<Instant>>,
}

impl KeyRing {
    /// The keys as they are now.
    #[must_use]
    pub fn keys(&self) -> Keys {
        self.0.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Encrypts `plain` for the row that `row` names.
    #[must_use]
    pub fn seal(&self, row: &[u8], plain: &[u8]) -> Sealed {
        self.keys().seal(row, plain)
    }

    /// Decrypts what was sealed for the row that `row` names. For a key it lacks it looks into the file again.
    ///
    /// # Errors
    /// [`SealError`]
    pub fn open(&self, row: &[u8], key_id: i64, bytes: &[u8]) -> Result<Vec<u8>, SealError> {
        match self.keys().open(row, key_id, bytes) {
            Err(SealError::KeyMissing(_)) if self.look_for(key_id) => self.keys().open(row, key_id, bytes),
            outcome => outcome,
        }
    }

    /// The keys in the file, if they are others than those in use.
    ///
    /// # Errors
    /// When the file cannot be read; the keys in use stay.
    pub fn changed(&self) -> Result<Option<Keys>, KeyError> {
        let Some(file) = &self.0.file else { return Ok(None) };
        let keys = read(file)?;
        Ok(Some(keys).filter(|keys| !keys.ids().eq(self.keys().ids())))
    }

    /// Uses these keys from now on.
    pub fn adopt(&self, keys: Keys) {
        *self.0.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Whether the key is in the ring after another look into the file. What encrypts stays the same if it can:
    /// a new key is written down in the store before it encrypts anything.
    fn look_for(&self, key_id: i64) -> bool {
        let mut read_at = self.0.read_at.lock().unwrap_or_else(PoisonError::into_inner);
        if read_at.is_some_and(|at| at.elapsed() < READ_AGAIN_AFTER) {
            return self.keys().ids().any(|id| id == key_id);
        }
        *read_at = Some(Instant::now());
        match self.changed() {
            Ok(Some(keys)) => self.adopt(keys.with_primary(self.keys().primary())),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the key file was not read again");
            }
        }
        self.keys().ids().any(|id| id == key_id)
    }
}

impl From<Keys> for KeyRing {
    /// A ring that stays as it is.
    fn from(keys: Keys) -> Self {
        Self(Arc::new(Shared { keys: RwLock::new(keys), file: None, read_at: Mutex::new(None) }))
    }
}

/// Tells operators of a key that something in the store is encrypted with, or may be, and that is not in the ring.
pub(crate) fn tell_missing(key: i64) {
    tracing::error!(
        key = %KeyId(key),
        "a key is missing: what it encrypted cannot be read until it is put back into the ring"
    );
}

/// Changes the keys in a file: all of it is replaced at once, and its owner and mode stay. Of several processes
/// that do so at once each sees what the others did.
///
/// # Errors
/// [`KeyError`]; the file is as it was then.
pub fn change<E: From<KeyError>>(
    path: &Path,
    change: impl FnOnce(Keys) -> Result<Keys, E>,
) -> Result<Keys, E> {
    let reading = |error| KeyError::Read(path.to_owned(), error);
    // A link stays a link.
    let path = path.canonicalize().map_err(reading)?;
    let held = locked(&path).map_err(|error| KeyError::Read(path.clone(), error))?;
    let keys = change(read(&path)?)?;
    replace(&path, &held, &keys).map_err(|error| KeyError::Write(path.clone(), error))?;
    Ok(keys)
}

fn read(path: &Path) -> Result<Keys, KeyError> {
    let text = fs::read_to_string(path).map_err(|error| KeyError::Read(path.to_owned(), error))?;
    text.parse().map_err(|error| KeyError::Wrong(path.to_owned(), error))
}

/// Makes a file of one new key, for its owner alone. One that appears meanwhile is read instead.
fn create(path: &Path) -> Result<Keys, KeyError> {
    let keys = Keys::generate();
    let writing = |error| KeyError::Write(path.to_owned(), error);
    let new = new_file(path, &keys, 0o600).map_err(writing)?;
    // Unlike renaming, linking never takes the place of a file that is there.
    let linked = fs::hard_link(&new, path);
    fs::remove_file(&new).map_err(writing)?;
    match linked {
        Ok(()) => {
            sync_directory(path).map_err(writing)?;
            tracing::info!(
                file = %path.display(),
                "made a key file: without it, what is encrypted in the store is lost, so keep a copy of it"
            );
            Ok(keys)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(writing(error)),
    }
}

fn replace(path: &Path, held: &File, keys: &Keys) -> io::Result<()> {
    let old = held.metadata()?;
    let new = new_file(path, keys, 0o600)?;
    let replaced = (|| {
        let made = fs::metadata(&new)?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            chown(&new, Some(old.uid()), Some(old.gid()))?;
        }
        fs::set_permissions(&new, fs::Permissions::from_mode(old.mode() & 0o7777))?;
        fs::rename(&new, path)?;
        sync_directory(path)
    })();
    if replaced.is_err() {
        // Best effort: the failure that led here says more.
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// A file beside `path` that holds the keys, on disk.
fn new_file(path: &Path, keys: &Keys, mode: u32) -> io::Result<PathBuf> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    let written = file.write_all(keys.reveal().as_bytes()).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    Ok(new)
}

/// The file at `path`, which nobody else changes while this is held.
fn locked(path: &Path) -> io::Result<File> {
    loop {
        let file = File::open(path)?;
        file.lock()?;
        // Whoever held it before may have put another file in its place.
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
        let rotated = change::<KeyError>(&path, |keys| Ok(keys.rotated())).expect("it is changed");
        assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o640, "its mode stays");
        assert_eq!(fs::read_dir(&directory).expect("it is there").count(), 1, "nothing else is left");

        let sealed = rotated.seal(b"row", b"text");
        assert_eq!(ring.open(b"row", sealed.key_id, &sealed.bytes).as_deref(), Ok(&b"text"[..]));
        assert_eq!(ring.keys().primary(), first.primary(), "a key that is not written down encrypts nothing");
        let changed = ring.changed().expect("it is read").expect("it is another order");
        ring.adopt(changed);
        assert_eq!(ring.keys().primary(), rotated.primary());
        fs::remove_dir_all(&directory).expect("it goes");
    }
}
