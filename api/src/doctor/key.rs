//! The keys: whether they are there, for their owner alone, and all that the store needs.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt};

use super::Finding;
use crate::{
    config::CommonConfig,
    error::Chain,
    key_ring::KeySource,
    seal::{KeyId, Keys, PLAIN},
    store::{StoreError, SystemStore},
};

/// What is found of the keys; of what they encrypt only if the store could be opened.
pub(super) async fn examine(common: &CommonConfig, store: Option<&SystemStore>) -> Vec<Finding> {
    let Some(source) = &common.keys else {
        let advice = "galvo key generate makes a key; name its file in GALVO_SECRET_KEY_FILE";
        return vec![Finding::failed("keys", "nothing says where they are", advice)];
    };
    let mut findings = Vec::new();
    if let Some(path) = source.file()
        && fs::metadata(path).is_ok_and(|file| file.mode() & 0o077 != 0)
    {
        let message = format!("others than its owner may read {}", path.display());
        findings.push(Finding::warning("keys", message, format!("chmod 600 {}", path.display())));
    }
    let keys = match source.read() {
        Ok(keys) => keys,
        Err(error) => {
            let advice = "put the key file back from its backup, or correct GALVO_SECRET_KEY_FILE";
            findings.push(Finding::failed("keys", Chain(&error).to_string(), advice));
            return findings;
        }
    };
    findings.push(match (keys, store) {
        (Some(keys), None) => Finding::ok("keys", counted(&keys)),
        (Some(keys), Some(store)) => match missing(&keys, store).await {
            Ok(missing) if missing.is_empty() => {
                Finding::ok("keys", format!("{}, and the store needs no others", counted(&keys)))
            }
            Ok(missing) => judge(&missing),
            Err(error) => unknown(&error),
        },
        (None, store) => absent(source, store).await,
    });
    findings
}

fn counted(keys: &Keys) -> String {
    match keys.ids().count() {
        1 => "there is 1".to_owned(),
        count => format!("there are {count}"),
    }
}

/// The keys that the ring lacks, with the rows that each encrypted: those the store knows, and those that rows need whether it
/// knows them or not, as one that was forgotten too early.
async fn missing(keys: &Keys, store: &SystemStore) -> Result<Vec<(i64, u64)>, StoreError> {
    let mut rows: BTreeMap<i64, u64> = store.known_keys().await?.into_keys().map(|id| (id, 0)).collect();
    rows.extend(store.key_uses().await?.iter().map(|used| (used.key_id, used.total())));
    Ok(rows.into_iter().filter(|(id, _)| *id != PLAIN && keys.ids().all(|key| key != *id)).collect())
}

fn judge(missing: &[(i64, u64)]) -> Finding {
    let named: Vec<String> =
        missing.iter().map(|(id, rows)| format!("{} with {rows} rows", KeyId(*id))).collect();
    let message = format!("the ring lacks keys of the store: {}", named.join(", "));
    if missing.iter().any(|(_, rows)| *rows > 0) {
        Finding::failed(
            "keys",
            message,
            "put them back into the ring from its backup: without them those rows cannot be read",
        )
    } else {
        Finding::warning("keys", message, "nothing is encrypted with them: put them back, or forget them")
    }
}

/// There is no key file.
async fn absent(source: &KeySource, store: Option<&SystemStore>) -> Finding {
    let path = source.file().map(|path| path.display().to_string()).unwrap_or_default();
    let message = format!("there is no {path}");
    let needed = match (source, store) {
        (KeySource::BesideStore(_), None) => Ok(false),
        (KeySource::BesideStore(_), Some(store)) => store.has_sealed_rows().await,
        _ => Ok(true),
    };
    match needed {
        Ok(true) => Finding::failed(
            "keys",
            message,
            "put it back from its backup: what it encrypted cannot be read without",
        ),
        Ok(false) => Finding::ok("keys", format!("{message} yet; galvo serve makes it")),
        Err(error) => unknown(&error),
    }
}

fn unknown(error: &StoreError) -> Finding {
    let message = format!("it is not known which the store needs: {}", Chain(error));
    Finding::warning("keys", message, "look again once its migrations are applied")
}
