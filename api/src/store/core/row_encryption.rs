//! Encryption of columns, bound to the row by associated data.

use entity::ids::AccountId;

use super::{error::StoreError, scoped::AccountStore};
use crate::{
    encryption::{DecryptError, Encrypted},
    key_ring::KeyRing,
};

/// The associated data of a row. A ciphertext decrypts only with the associated data of the row it was
/// encrypted for.
///
/// Its key is the whole primary key in order: integers as eight little-endian bytes, UUIDs as their
/// bytes, text as UTF-8. Re-encryption derives the associated data from the primary key in the same way,
/// so no table may use another form.
pub(crate) struct AssociatedData(Vec<u8>);

impl AssociatedData {
    /// Returns the associated data for the row of `table` with the primary key `key`, which excludes the
    /// account.
    pub(crate) fn new(table: &str, account: AccountId, key: &[&[u8]]) -> Self {
        let mut encoded = Vec::with_capacity(64);
        for part in [table.as_bytes(), account.0.as_bytes()].into_iter().chain(key.iter().copied()) {
            // Each part is prefixed with its length, so that different keys cannot have the same
            // encoding.
            encoded.extend_from_slice(&(part.len() as u64).to_le_bytes());
            encoded.extend_from_slice(part);
        }
        Self(encoded)
    }

    /// Returns the name of the table, which is the first part.
    fn table(&self) -> &[u8] {
        let length = self.0.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
        let end = usize::try_from(length).ok().and_then(|length| length.checked_add(8));
        end.and_then(|end| self.0.get(8..end)).unwrap_or_default()
    }
}

impl AccountStore {
    pub(crate) fn encrypt_bytes(&self, row: &AssociatedData, plain: &[u8]) -> Encrypted {
        seal(self.keys(), row, plain)
    }

    pub(crate) fn decrypt_row(
        &self,
        row: &AssociatedData,
        key_id: i64,
        sealed: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let plain = decrypt_bytes(self.keys(), row, key_id, sealed)?;
        self.decrypted().count_decryption(row.table());
        Ok(plain)
    }
}

/// Encrypts bytes for a row of any account.
pub(crate) fn seal(keys: &KeyRing, row: &AssociatedData, plain: &[u8]) -> Encrypted {
    keys.seal(&row.0, plain)
}

/// Decrypts bytes that were encrypted for a row of any account.
pub(crate) fn decrypt_bytes(
    keys: &KeyRing,
    row: &AssociatedData,
    key_id: i64,
    bytes: &[u8],
) -> Result<Vec<u8>, DecryptError> {
    keys.open(&row.0, key_id, bytes)
}

impl From<DecryptError> for StoreError {
    fn from(error: DecryptError) -> Self {
        Self::Decryption(error)
    }
}
