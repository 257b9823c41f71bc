//! Checks of the encryption keys: their presence, their file permissions, and their completeness for the
//! database.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt};

use super::Finding;
use crate::{
    config::CommonConfig,
    encryption::{KeyId, Keys, PLAIN},
    error::Chain,
    key_ring::KeySource,
    store::{StoreError, SystemStore},
};

/// Checks the keys, and the rows that they encrypt if the database could be opened.
pub(super) async fn examine(common: &CommonConfig, store: Option<&SystemStore>) -> Vec<Finding> {
    let Some(source) = &common.keys else {
        let advice = "create a key with `galvo key generate`, and set GALVO_SECRET_KEY_FILE to its file";
        return vec![Finding::failed("keys", "no key file is configured", advice)];
    };
    let mut findings = Vec::new();
    if let Some(path) = source.file()
        && fs::metadata(path).is_ok_and(|file| file.mode() & 0o077 != 0)
    {
        let message = format!("{} is readable by other users", path.display());
        findings.push(Finding::warning("keys", message, format!("chmod 600 {}", path.display())));
    }
    let keys = match source.read() {
        Ok(keys) => keys,
        Err(error) => {
            let advice = "restore the key file from its backup, or correct GALVO_SECRET_KEY_FILE";
            findings.push(Finding::failed("keys", Chain(&error).to_string(), advice));
            return findings;
        }
    };
    findings.push(match (keys, store) {
        (Some(keys), None) => Finding::ok("keys", describe_count(&keys)),
        (Some(keys), Some(store)) => match find_missing_keys(&keys, store).await {
            Ok(missing) if missing.is_empty() => {
                Finding::ok("keys", format!("{}, all that the database needs", describe_count(&keys)))
            }
            Ok(missing) => missing_keys_finding(&missing),
            Err(error) => unknown_keys_finding(&error),
        },
        (None, store) => missing_file_finding(source, store).await,
    });
    findings
}

fn describe_count(keys: &Keys) -> String {
    match keys.ids().count() {
        1 => "1 key".to_owned(),
        count => format!("{count} keys"),
    }
}

/// Returns the keys that the key ring lacks, each with its number of encrypted rows: recorded keys, and keys
/// of rows without a record, for example after a key was removed too early.
async fn find_missing_keys(keys: &Keys, store: &SystemStore) -> Result<Vec<(i64, u64)>, StoreError> {
    let mut rows: BTreeMap<i64, u64> = store.known_keys().await?.into_keys().map(|id| (id, 0)).collect();
    rows.extend(store.key_uses().await?.iter().map(|key_use| (key_use.key_id, key_use.total())));
    Ok(rows.into_iter().filter(|(id, _)| *id != PLAIN && keys.ids().all(|key| key != *id)).collect())
}

fn missing_keys_finding(missing: &[(i64, u64)]) -> Finding {
    let key_list: Vec<String> =
        missing.iter().map(|(id, rows)| format!("{} with {rows} rows", KeyId(*id))).collect();
    let message = format!("the key ring lacks keys that the database needs: {}", key_list.join(", "));
    if missing.iter().any(|(_, rows)| *rows > 0) {
        Finding::failed(
            "keys",
            message,
            "restore them to the key ring from its backup: without them, those rows cannot be read",
        )
    } else {
        Finding::warning(
            "keys",
            message,
            "no data is encrypted with them: restore them, or run `galvo key retire`",
        )
    }
}

/// Returns the finding for a missing key file.
async fn missing_file_finding(source: &KeySource, store: Option<&SystemStore>) -> Finding {
    let path = source.file().map(|path| path.display().to_string()).unwrap_or_default();
    let message = format!("{path} does not exist");
    let is_needed = match (source, store) {
        (KeySource::BesideStore(_), None) => Ok(false),
        (KeySource::BesideStore(_), Some(store)) => store.has_sealed_rows().await,
        _ => Ok(true),
    };
    match is_needed {
        Ok(true) => Finding::failed(
            "keys",
            message,
            "restore it from its backup: without it, encrypted data cannot be read",
        ),
        Ok(false) => Finding::ok("keys", format!("{message} yet; `galvo serve` creates it")),
        Err(error) => unknown_keys_finding(&error),
    }
}

fn unknown_keys_finding(error: &StoreError) -> Finding {
    let message = format!("cannot read which keys the database needs: {}", Chain(error));
    Finding::warning("keys", message, "run this command again after the migrations are applied")
}
