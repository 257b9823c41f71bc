//! Texts that lie encrypted in their rows, and what binds them there.

use entity::ids::AccountId;

use super::{error::StoreError, scoped::AccountStore};
use crate::{
    key_ring::KeyRing,
    seal::{SealError, Sealed},
};

/// A row as encryption knows it: what is sealed for one opens for no other.
///
/// Its key is the whole primary key in order: numbers as eight bytes, the lowest first, UUIDs as their bytes, text as
/// UTF-8. What encrypts old rows again makes the names from that, so no table may do otherwise.
pub(super) struct RowName(Vec<u8>);

impl RowName {
    /// The row of `table` whose key, after the account, is `key`.
    pub(super) fn new(table: &str, account: AccountId, key: &[&[u8]]) -> Self {
        let mut name = Vec::with_capacity(64);
        for part in [table.as_bytes(), account.0.as_bytes()].into_iter().chain(key.iter().copied()) {
            // With their lengths, so that no two keys run together into the same name.
            name.extend_from_slice(&(part.len() as u64).to_le_bytes());
            name.extend_from_slice(part);
        }
        Self(name)
    }

    /// The table, which is the first part.
    fn table(&self) -> &[u8] {
        let length = self.0.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
        let end = usize::try_from(length).ok().and_then(|length| length.checked_add(8));
        end.and_then(|end| self.0.get(8..end)).unwrap_or_default()
    }
}

impl AccountStore {
    pub(super) fn seal(&self, row: &RowName, plain: &[u8]) -> Sealed {
        seal(self.keys(), row, plain)
    }

    pub(super) fn unseal(&self, row: &RowName, key_id: i64, sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        let plain = open(self.keys(), row, key_id, sealed)?;
        self.decrypted().note(row.table());
        Ok(plain)
    }
}

/// Encrypts for a row of any account.
pub(super) fn seal(keys: &KeyRing, row: &RowName, plain: &[u8]) -> Sealed {
    keys.seal(&row.0, plain)
}

/// Decrypts what was sealed for a row of any account.
pub(super) fn open(keys: &KeyRing, row: &RowName, key_id: i64, bytes: &[u8]) -> Result<Vec<u8>, SealError> {
    keys.open(&row.0, key_id, bytes)
}

impl From<SealError> for StoreError {
    fn from(error: SealError) -> Self {
        Self::Sealed(error)
    }
}
