//! What `galvo key` does. A key is shown only where that is what was asked for.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use entity::Timestamp;

use crate::{
    clock::{Clock, SystemClock},
    config::{CommonConfig, KeyCommand},
    key_ring::{self, KeyError, KeySource, OTHERS_FOLLOW_WITHIN},
    seal::{KeyId, Keys, PLAIN},
    store::{KeyUse, MigrationError, SEALED_TABLES, Store, StoreError, SystemStore},
};

/// Why a key command did not do its work.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyCommandError {
    #[error(transparent)]
    Migration(#[from] MigrationError),
    #[error("cannot ask the store")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error("there is no key {0}")]
    Unknown(KeyId),
    #[error("the key {0} encrypts: rotate first")]
    Encrypts(KeyId),
    #[error("{rows} rows are encrypted with the key {id}: wait until `galvo key list` shows 0")]
    Used { id: KeyId, rows: u64 },
    #[error(
        "no server encrypts with the key {} yet, so they go on with an older one: try again {} minutes after they have \
         taken it into use",
        .0,
        OTHERS_FOLLOW_WITHIN.num_minutes()
    )]
    NotInUse(KeyId),
    #[error(
        "until {until} other servers may go on with an older key, because they have not read yet that {encrypts} \
         encrypts, and what they store would be lost with it: try again then"
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
        KeyCommand::List => list(source, &store(common).await?).await,
        KeyCommand::Rotate => rotate(source.expect(CHECKED)),
        KeyCommand::Retire { id } => retire(source.expect(CHECKED), id, &store(common).await?).await,
    }
}

/// Why there is a source of keys where a command needs one.
const CHECKED: &str = "the configuration of this command has keys";

async fn store(common: &CommonConfig) -> Result<SystemStore, KeyCommandError> {
    Store::migrate(&common.database).await?;
    Ok(SystemStore::connect(&common.database, common.connections).await?)
}

/// Keys that are in the ring, then those the store knows besides, then what is not encrypted.
async fn list(source: Option<&KeySource>, store: &SystemStore) -> Result<(), KeyCommandError> {
    let keys = source.map(KeySource::read).transpose()?.flatten();
    let ring: Vec<i64> = keys.iter().flat_map(Keys::ids).collect();
    let uses = store.key_uses().await?;
    let mut ids = ring.clone();
    let elsewhere = store.known_keys().await?.into_keys().chain(uses.iter().map(|used| used.key_id));
    for id in elsewhere.filter(|id| *id != PLAIN).chain([PLAIN]) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    println!("{:<14}{:<15}{}", "key", "state", SEALED_TABLES.join("  "));
    for id in ids {
        let state = match ring.iter().position(|key| *key == id) {
            _ if id == PLAIN => "not encrypted",
            Some(0) => "encrypts",
            Some(_) => "decrypts",
            None => "missing",
        };
        let rows =
            uses.iter().find(|used| used.key_id == id).map_or([0; SEALED_TABLES.len()], |used| used.rows);
        let rows = SEALED_TABLES
            .iter()
            .zip(rows)
            .map(|(table, rows)| format!("{rows:>width$}", width = table.len()));
        println!("{:<14}{state:<15}{}", KeyId(id).to_string(), rows.collect::<Vec<_>>().join("  "));
    }
    Ok(())
}

fn rotate(source: &KeySource) -> Result<(), KeyCommandError> {
    if let Some(file) = source.file() {
        let keys = key_ring::change::<KeyError>(file, |keys| Ok(keys.rotated()))?;
        println!("{}", KeyId(keys.primary()));
        eprintln!(
            "The new key stands first in {}.\n\
             1. Back that file up now.\n\
             2. Give it to every other server of this store. Each encrypts with the new key within a minute and \
             encrypts older rows again in the background.\n\
             3. Keep the old keys until `galvo key list` shows 0 rows for them, and for {} minutes at least; then \
             `galvo key retire` them.",
            file.display(),
            OTHERS_FOLLOW_WITHIN.num_minutes()
        );
        return Ok(());
    }
    let keys = source.read()?.expect("a ring that was given is there").rotated();
    println!("{}", one_line(&keys));
    eprintln!(
        "1. Back the line above up and set GALVO_SECRET_KEY to it: it is the new key {} and the ones before it.\n\
         2. Restart every server of this store with it; they encrypt older rows again in the background.\n\
         3. Keep the old keys in it until `galvo key list` shows 0 rows for them, and for {} minutes at least; then \
         `galvo key retire` them.",
        KeyId(keys.primary()),
        OTHERS_FOLLOW_WITHIN.num_minutes()
    );
    Ok(())
}

async fn retire(source: &KeySource, id: i64, store: &SystemStore) -> Result<(), KeyCommandError> {
    // Before the rows are counted: whoever had to follow by then adds no more of them.
    let (known, now) = (store.known_keys().await?, SystemClock.timestamp());
    let rows = store.key_uses().await?.iter().find(|used| used.key_id == id).map_or(0, KeyUse::total);
    if rows > 0 {
        return Err(KeyCommandError::Used { id: KeyId(id), rows });
    }
    let without = |keys: Keys| -> Result<Keys, KeyCommandError> {
        if keys.primary() == id {
            return Err(KeyCommandError::Encrypts(KeyId(id)));
        }
        match keys.without(id) {
            Some(rest) if known.contains_key(&id) || keys.ids().any(|key| key == id) => {
                check_followed(KeyId(keys.primary()), &known, now)?;
                Ok(rest)
            }
            _ => Err(KeyCommandError::Unknown(KeyId(id))),
        }
    };
    if let Some(file) = source.file() {
        key_ring::change(file, without)?;
    } else {
        let rest = without(source.read()?.expect("a ring that was given is there"))?;
        println!("{}", one_line(&rest));
        eprintln!("Set GALVO_SECRET_KEY to the line above for every server of this store.");
    }
    Ok(store.forget_key(id).await?)
}

/// Whether all servers have had the time to follow since one of them took the key into use that encrypts. Nobody knows which
/// servers there are, and each of them reads the keys again by itself, on SQLite as well.
fn check_followed(
    encrypts: KeyId,
    known: &BTreeMap<i64, Timestamp>,
    now: Timestamp,
) -> Result<(), KeyCommandError> {
    let since = known.get(&encrypts.0).ok_or(KeyCommandError::NotInUse(encrypts))?;
    let until = since.0 + OTHERS_FOLLOW_WITHIN;
    if now.0 < until { Err(KeyCommandError::TooEarly { encrypts, until }) } else { Ok(()) }
}

fn one_line(keys: &Keys) -> String {
    keys.reveal().trim_end().replace('\n', ",")
}
