//! The command `galvo key`. It prints key material only for the subcommands whose purpose is to print
//! it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use entity::Timestamp;

use super::store::{self, OpenError};
use crate::{
    clock::{Clock, SystemClock},
    config::{CommonConfig, KeyCommand},
    encryption::{KeyId, Keys, PLAIN},
    key_ring::{self, KEY_PROPAGATION_TIME, KeyError, KeySource},
    store::{ENCRYPTED_TABLES, KeyUse, StoreError, SystemStore},
};

/// The reason why a key command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyCommandError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot query the database")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error("there is no key {0}")]
    Unknown(KeyId),
    #[error("{0} is the encrypting key: run `galvo key rotate` first")]
    Encrypts(KeyId),
    #[error("{rows} rows are encrypted with the key {id}: wait until `galvo key list` shows 0")]
    Used { id: KeyId, rows: u64 },
    #[error(
        "no server encrypts with the key {} yet: try again {} minutes after the servers have loaded it",
        .0,
        KEY_PROPAGATION_TIME.num_minutes()
    )]
    NotInUse(KeyId),
    #[error(
        "other servers may not have loaded {encrypts} yet and may encrypt with an older key, whose removal \
         would lose their data: try again after {until}"
    )]
    TooEarly { encrypts: KeyId, until: DateTime<Utc> },
}

pub(super) async fn run(command: KeyCommand, common: &CommonConfig) -> Result<(), KeyCommandError> {
    let source = common.keys.as_ref();
    match command {
        KeyCommand::Generate => {
            print!("{}", Keys::generate().reveal());
            Ok(())
        }
        KeyCommand::List => list(source, &store::open(common).await?).await,
        KeyCommand::Rotate => rotate(source.expect(HAS_KEYS)),
        KeyCommand::Retire { id } => retire(source.expect(HAS_KEYS), id, &store::open(common).await?).await,
    }
}

/// The reason why a command with keys always has a source of keys.
const HAS_KEYS: &str = "the configuration of this command has keys";

/// Prints the keys of the ring, then the keys known only to the database, then the rows without
/// encryption.
async fn list(source: Option<&KeySource>, store: &SystemStore) -> Result<(), KeyCommandError> {
    let keys = source.map(KeySource::read).transpose()?.flatten();
    let ring: Vec<i64> = keys.iter().flat_map(Keys::ids).collect();
    let uses = store.key_uses().await?;
    let mut ids = ring.clone();
    let database_key_ids =
        store.known_keys().await?.into_keys().chain(uses.iter().map(|key_use| key_use.key_id));
    for id in database_key_ids.filter(|id| *id != PLAIN).chain([PLAIN]) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    println!("{:<14}{:<15}{}", "key", "state", ENCRYPTED_TABLES.join("  "));
    for id in ids {
        let state = match ring.iter().position(|key| *key == id) {
            _ if id == PLAIN => "not encrypted",
            Some(0) => "encrypts",
            Some(_) => "decrypts",
            None => "missing",
        };
        let rows = uses
            .iter()
            .find(|key_use| key_use.key_id == id)
            .map_or([0; ENCRYPTED_TABLES.len()], |key_use| key_use.rows);
        let rows = ENCRYPTED_TABLES
            .iter()
            .zip(rows)
            .map(|(table, rows)| format!("{rows:>width$}", width = table.len()));
        println!("{:<14}{state:<15}{}", KeyId(id).to_string(), rows.collect::<Vec<_>>().join("  "));
    }
    Ok(())
}

fn rotate(source: &KeySource) -> Result<(), KeyCommandError> {
    if let Some(file) = source.file() {
        let keys = key_ring::update_key_file::<KeyError>(file, |keys| Ok(keys.rotated()))?;
        println!("{}", KeyId(keys.primary()));
        eprintln!(
            "The new key is the first one in {}.\n\
             1. Back that file up now.\n\
             2. Copy it to every other server of this database. Each encrypts with the new key within a \
             minute and re-encrypts older rows in the background.\n\
             3. Keep the old keys until `galvo key list` shows 0 rows for them, and for {} minutes at least; then \
             `galvo key retire` them.",
            file.display(),
            KEY_PROPAGATION_TIME.num_minutes()
        );
        return Ok(());
    }
    let keys = source.read()?.expect("the environment variable holds a key ring").rotated();
    println!("{}", one_line(&keys));
    eprintln!(
        "1. Back up the line above and set GALVO_SECRET_KEY to it: it contains the new key {} and the \
         previous ones.\n\
         2. Restart every server of this database with it; they re-encrypt older rows in the background.\n\
         3. Keep the old keys in it until `galvo key list` shows 0 rows for them, and for {} minutes at least; then \
         `galvo key retire` them.",
        KeyId(keys.primary()),
        KEY_PROPAGATION_TIME.num_minutes()
    );
    Ok(())
}

async fn retire(source: &KeySource, id: i64, store: &SystemStore) -> Result<(), KeyCommandError> {
    // Read before the rows are counted: if all servers already follow the newest key at this point, no
    // row with the old key is added after the count.
    let (known_keys, now) = (store.known_keys().await?, SystemClock.timestamp());
    let rows = store.key_uses().await?.iter().find(|key_use| key_use.key_id == id).map_or(0, KeyUse::total);
    if rows > 0 {
        return Err(KeyCommandError::Used { id: KeyId(id), rows });
    }
    let remove_key = |keys: Keys| -> Result<Keys, KeyCommandError> {
        if keys.primary() == id {
            return Err(KeyCommandError::Encrypts(KeyId(id)));
        }
        match keys.without(id) {
            Some(remaining_keys) if known_keys.contains_key(&id) || keys.ids().any(|key| key == id) => {
                check_key_propagation(KeyId(keys.primary()), &known_keys, now)?;
                Ok(remaining_keys)
            }
            _ => Err(KeyCommandError::Unknown(KeyId(id))),
        }
    };
    if let Some(file) = source.file() {
        key_ring::update_key_file(file, remove_key)?;
    } else {
        let remaining_keys = remove_key(source.read()?.expect("the environment variable holds a key ring"))?;
        println!("{}", one_line(&remaining_keys));
        eprintln!("Set GALVO_SECRET_KEY to the line above for every server of this database.");
    }
    Ok(store.forget_key(id).await?)
}

/// Checks that all servers have had time to follow the encrypting key, counted from its first use by any
/// of them. The servers of a database are not registered anywhere, and each of them reloads the keys on
/// its own, with SQLite as well.
fn check_key_propagation(
    encrypts: KeyId,
    known_keys: &BTreeMap<i64, Timestamp>,
    now: Timestamp,
) -> Result<(), KeyCommandError> {
    let since = known_keys.get(&encrypts.0).ok_or(KeyCommandError::NotInUse(encrypts))?;
    let until = since.0 + KEY_PROPAGATION_TIME;
    if now.0 < until { Err(KeyCommandError::TooEarly { encrypts, until }) } else { Ok(()) }
}

fn one_line(keys: &Keys) -> String {
    keys.reveal().trim_end().replace('\n', ",")
}
