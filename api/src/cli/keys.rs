//! What `galvo key` does. A key is shown only where that is what was asked for.

use crate::{
    config::{CommonConfig, KeyCommand},
    key_ring::{self, KeyError, KeySource},
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
    let elsewhere = store.known_keys().await?.into_iter().chain(uses.iter().map(|used| used.key_id));
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
             3. Keep the old keys until `galvo key list` shows 0 rows for them; then `galvo key retire` them.",
            file.display()
        );
        return Ok(());
    }
    let keys = source.read()?.expect("a ring that was given is there").rotated();
    println!("{}", one_line(&keys));
    eprintln!(
        "1. Back the line above up and set GALVO_SECRET_KEY to it: it is the new key {} and the ones before it.\n\
         2. Restart every server of this store with it; they encrypt older rows again in the background.\n\
         3. Keep the old keys in it until `galvo key list` shows 0 rows for them; then `galvo key retire` them.",
        KeyId(keys.primary())
    );
    Ok(())
}

async fn retire(source: &KeySource, id: i64, store: &SystemStore) -> Result<(), KeyCommandError> {
    let rows = store.key_uses().await?.iter().find(|used| used.key_id == id).map_or(0, KeyUse::total);
    if rows > 0 {
        return Err(KeyCommandError::Used { id: KeyId(id), rows });
    }
    let known = store.known_keys().await?.contains(&id);
    let without = |keys: Keys| {
        if keys.primary() == id {
            return Err(KeyCommandError::Encrypts(KeyId(id)));
        }
        match keys.without(id) {
            Some(rest) if known || keys.ids().any(|key| key == id) => Ok(rest),
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

fn one_line(keys: &Keys) -> String {
    keys.reveal().trim_end().replace('\n', ",")
}
