//! Encryption of sensitive columns: code, tracebacks, profile lines and log text.
//!
//! XChaCha20-Poly1305 with a ring of keys: the first key encrypts, all keys decrypt. The row is the
//! associated data, so a ciphertext cannot be moved to another row. This module knows neither files nor
//! settings.

use std::{fmt, str::FromStr, sync::Arc};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use sha2::{Digest, Sha256};

use crate::compression::{compress, decompress};

/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;

/// The length of a nonce, in bytes. Random nonces of this length practically never collide.
const NONCE_BYTES: usize = 24;

/// The minimum length for compression, in bytes. Shorter texts do not get smaller.
const MIN_COMPRESSED: usize = 128;

/// The maximum length for compression, in bytes. Longer texts are stored uncompressed, so that
/// decompression is bounded.
const MAX_COMPRESSED: usize = 64 << 20;

/// The key ID of rows that are not encrypted.
pub const PLAIN: i64 = 0;

/// The keys of a server. Its `Debug` output shows only their IDs.
#[derive(Clone)]
pub struct Keys(Arc<[Key]>);

#[derive(Clone)]
struct Key {
    id: i64,
    text: String,
    cipher: XChaCha20Poly1305,
}

/// The ID of a key, displayed as 12 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId(pub i64);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

/// Encrypted data and the ID of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encrypted {
    /// The ID of the key. 0 for data that is not encrypted.
    pub key_id: i64,
    /// The nonce, followed by the ciphertext.
    pub bytes: Vec<u8>,
}

/// The reason why data cannot be decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecryptError {
    /// The key is not in the ring.
    #[error("it was encrypted with the key {0:012x}, which this server does not have")]
    KeyMissing(i64),
    /// The ciphertext is damaged or belongs to another row.
    #[error("it is damaged, or belongs to another row")]
    Damaged,
}

/// The reason why a text is not a key ring. It never repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// The text holds no key.
    #[error("there is no key in it")]
    Empty,
    /// One of the keys is malformed. The number is its position, from 1.
    #[error("key {0} in it is not 32 bytes in URL-safe base64")]
    NotAKey(usize),
}

impl Keys {
    /// Returns a ring with one new key.
    #[must_use]
    pub fn generate() -> Self {
        Self(Arc::new([Key::new(rand::random())]))
    }

    /// Returns a copy of the ring with a new encrypting key.
    #[must_use]
    pub fn rotated(&self) -> Self {
        Self([Key::new(rand::random())].into_iter().chain(self.0.iter().cloned()).collect())
    }

    /// Returns a copy of the ring with key `id` as the encrypting key. The order does not change if the
    /// ring lacks the key.
    #[must_use]
    pub fn with_primary(&self, id: i64) -> Self {
        let (primary_keys, other_keys): (Vec<&Key>, Vec<&Key>) = self.0.iter().partition(|key| key.id == id);
        Self(primary_keys.into_iter().chain(other_keys).cloned().collect())
    }

    /// Returns a copy of the ring without key `id`. `None` if no key is left.
    #[must_use]
    pub fn without(&self, id: i64) -> Option<Self> {
        let remaining_keys: Arc<[Key]> = self.0.iter().filter(|key| key.id != id).cloned().collect();
        (!remaining_keys.is_empty()).then_some(Self(remaining_keys))
    }

    /// Returns the ID of the encrypting key.
    #[must_use]
    pub fn primary(&self) -> i64 {
        self.0[0].id
    }

    /// Returns the IDs of all keys, the encrypting one first.
    pub fn ids(&self) -> impl Iterator<Item = i64> {
        self.0.iter().map(|key| key.id)
    }

    /// Returns the keys as text, one per line. The result is secret.
    #[must_use]
    pub fn reveal(&self) -> String {
        self.0.iter().flat_map(|key| [key.text.as_str(), "\n"]).collect()
    }

    /// Encrypts `plain`. `row` identifies the row and is the associated data.
    ///
    /// # Panics
    /// Panics only for input that does not fit into memory.
    #[must_use]
    pub fn encrypt_for_row(&self, row: &[u8], plain: &[u8]) -> Encrypted {
        let key = &self.0[0];
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload { msg: &pack(plain), aad: row };
        let ciphertext =
            key.cipher.encrypt(&XNonce::from(nonce), payload).expect("encryption in memory succeeds");
        Encrypted { key_id: key.id, bytes: [&nonce[..], &ciphertext].concat() }
    }

    /// Decrypts data of the row that `row` identifies.
    ///
    /// # Errors
    /// [`DecryptError`]
    pub fn decrypt_for_row(&self, row: &[u8], key_id: i64, bytes: &[u8]) -> Result<Vec<u8>, DecryptError> {
        if key_id == PLAIN {
            return Ok(bytes.to_vec());
        }
        let key = self.0.iter().find(|key| key.id == key_id).ok_or(DecryptError::KeyMissing(key_id))?;
        let (nonce, ciphertext) = bytes.split_first_chunk::<NONCE_BYTES>().ok_or(DecryptError::Damaged)?;
        let payload = Payload { msg: ciphertext, aad: row };
        let packed = key.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| DecryptError::Damaged)?;
        unpack(&packed).ok_or(DecryptError::Damaged)
    }
}

impl FromStr for Keys {
    type Err = KeysError;

    /// Parses keys separated by white space or commas. The first key encrypts.
    fn from_str(text: &str) -> Result<Self, KeysError> {
        let encoded_keys =
            text.split(|c: char| c.is_whitespace() || c == ',').filter(|encoded_key| !encoded_key.is_empty());
        let keys = encoded_keys.enumerate().map(|(index, encoded_key)| {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(encoded_key.trim_end_matches('=')).ok();
            let bytes: Option<[u8; KEY_BYTES]> = bytes.and_then(|bytes| bytes.try_into().ok());
            bytes.map(Key::new).ok_or(KeysError::NotAKey(index + 1))
        });
        let keys: Vec<Key> = keys.collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(KeysError::Empty) } else { Ok(Self(keys.into())) }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids().map(|id| format!("{id:012x}"))).finish()
    }
}

impl Key {
    fn new(bytes: [u8; KEY_BYTES]) -> Self {
        let digest = Sha256::new().chain_update(b"galvo key identifier").chain_update(bytes).finalize();
        let id = digest[..6].iter().fold(0, |id, byte| id << 8 | i64::from(*byte)).max(1);
        let text = BASE64_URL_SAFE_NO_PAD.encode(bytes);
        Self { id, text, cipher: XChaCha20Poly1305::new(&bytes.into()) }
    }
}

/// The marker of uncompressed text, which follows.
const UNCOMPRESSED: u8 = 0;

/// The marker of compressed text: four bytes with its uncompressed length, in little-endian order, then
/// the compressed text. The marker 1 is not used.
const COMPRESSED: u8 = 2;

/// Prepends the marker byte to a text, and compresses the text if that makes it smaller.
fn pack(plain: &[u8]) -> Vec<u8> {
    if (MIN_COMPRESSED..=MAX_COMPRESSED).contains(&plain.len())
        && let Ok(length) = u32::try_from(plain.len())
        && let compressed = compress(plain)
        && compressed.len() + size_of_val(&length) < plain.len()
    {
        return [&[COMPRESSED], &length.to_le_bytes()[..], &compressed].concat();
    }
    [&[UNCOMPRESSED], plain].concat()
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    match packed.split_first()? {
        (&UNCOMPRESSED, plain) => Some(plain.to_vec()),
        (&COMPRESSED, payload) => {
            let (length, compressed) = payload.split_first_chunk()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            // The stated length is checked first, which bounds the allocated memory.
            let plain = if length <= MAX_COMPRESSED { decompress(compressed, length)? } else { return None };
            (plain.len() == length).then_some(plain)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_for_its_row_only() {
        let keys = Keys::generate();
        for plain in [&b""[..], b"short", &[b'x'; 10_000]] {
            let sealed = keys.encrypt_for_row(b"row 1", plain);
            assert_eq!(keys.decrypt_for_row(b"row 1", sealed.key_id, &sealed.bytes).as_deref(), Ok(plain));
            assert_eq!(
                keys.decrypt_for_row(b"row 2", sealed.key_id, &sealed.bytes),
                Err(DecryptError::Damaged)
            );
            let mut damaged = sealed.bytes.clone();
            *damaged.last_mut().expect("there is a tag") ^= 1;
            assert_eq!(keys.decrypt_for_row(b"row 1", sealed.key_id, &damaged), Err(DecryptError::Damaged));
        }
    }

    #[test]
    fn a_text_takes_the_memory_it_needs_and_no_more() {
        let plain = [b'x'; 10_000];
        let packed = pack(&plain);
        assert!(packed.len() < 100, "it is compressed");
        let unpacked = unpack(&packed).expect("it was packed");
        assert_eq!((&unpacked[..], unpacked.capacity()), (&plain[..], plain.len()));
        for length in [0, 9_999, 10_001, u32::MAX] {
            let lying = [&packed[..1], &length.to_le_bytes(), &packed[5..]].concat();
            assert_eq!(unpack(&lying), None, "{length}");
        }
        assert_eq!(unpack(&packed[..3]), None);
    }

    #[test]
    fn older_keys_still_open_and_missing_ones_are_named() {
        let before = Keys::generate();
        let sealed = before.encrypt_for_row(b"row", b"text");
        let after = before.rotated();
        assert_eq!(after.ids().nth(1), Some(before.primary()));
        assert_ne!(after.primary(), before.primary());
        assert_eq!(after.decrypt_for_row(b"row", sealed.key_id, &sealed.bytes).as_deref(), Ok(&b"text"[..]));
        let other = Keys::generate();
        assert_eq!(
            other.decrypt_for_row(b"row", sealed.key_id, &sealed.bytes),
            Err(DecryptError::KeyMissing(before.primary()))
        );
    }

    #[test]
    fn a_ring_is_read_from_text_and_never_shown() {
        let keys = Keys::generate().rotated();
        let read: Keys = keys.reveal().replace('\n', ", ").parse().expect("as it was written");
        assert_eq!(read.ids().collect::<Vec<_>>(), keys.ids().collect::<Vec<_>>());
        assert!(!format!("{keys:?}").contains(keys.reveal().lines().next().expect("a key")));
        assert_eq!("".parse::<Keys>().err(), Some(KeysError::Empty));
        assert_eq!("abc".parse::<Keys>().err(), Some(KeysError::NotAKey(1)));
    }
}
