//! Encryption of what must not lie in the database in the open: code, tracebacks, lines of profiles, log text.
//!
//! XChaCha20-Poly1305 under a ring of keys: the first one encrypts, all of them decrypt. What is sealed is
//! bound to its row, so it cannot be moved to another one. Knows nothing of files and settings.

use std::{fmt, str::FromStr, sync::Arc};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use sha2::{Digest, Sha256};

use crate::compression::{compress, decompress};

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Bytes of a nonce, enough to be drawn at random for ever.
const NONCE_BYTES: usize = 24;

/// Below this, compressing gains nothing.
const WORTH_COMPRESSING: usize = 128;

/// Nothing inflates to more; what is longer is not compressed.
const MAX_INFLATED: usize = 64 << 20;

/// The identifier of what is not encrypted.
pub const PLAIN: i64 = 0;

/// The keys of a server. `Debug` shows their identifiers only.
#[derive(Clone)]
pub struct Keys(Arc<[Key]>);

#[derive(Clone)]
struct Key {
    id: i64,
    text: String,
    cipher: XChaCha20Poly1305,
}

/// The identifier of a key, as people read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId(pub i64);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

/// Something encrypted, and with which key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The identifier of the key; 0 for what is not encrypted.
    pub key_id: i64,
    /// The nonce and what was encrypted.
    pub bytes: Vec<u8>,
}

/// Why something cannot be decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It was encrypted with a key that is not in the ring.
    #[error("it was encrypted with the key {0:012x}, which this server does not have")]
    KeyMissing(i64),
    /// It is not what was encrypted for this row.
    #[error("it is damaged, or belongs to another row")]
    Damaged,
}

/// Why a text is not a ring of keys. The text itself is never repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// There is none.
    #[error("there is no key in it")]
    Empty,
    /// One of them is not a key.
    #[error("key {0} in it is not 32 bytes in URL-safe base64")]
    NotAKey(usize),
}

impl Keys {
    /// A ring of one new key.
    #[must_use]
    pub fn generate() -> Self {
        Self(Arc::new([Key::new(rand::random())]))
    }

    /// The same ring with a new key in front.
    #[must_use]
    pub fn rotated(&self) -> Self {
        Self([Key::new(rand::random())].into_iter().chain(self.0.iter().cloned()).collect())
    }

    /// The same ring with this key in front, if it is in it.
    #[must_use]
    pub fn with_primary(&self, id: i64) -> Self {
        let (first, rest): (Vec<&Key>, Vec<&Key>) = self.0.iter().partition(|key| key.id == id);
        Self(first.into_iter().chain(rest).cloned().collect())
    }

    /// The same ring without this key; none if nothing is left.
    #[must_use]
    pub fn without(&self, id: i64) -> Option<Self> {
        let rest: Arc<[Key]> = self.0.iter().filter(|key| key.id != id).cloned().collect();
        (!rest.is_empty()).then_some(Self(rest))
    }

    /// The identifier of the key that encrypts.
    #[must_use]
    pub fn primary(&self) -> i64 {
        self.0[0].id
    }

    /// The identifiers of all keys, the one that encrypts first.
    pub fn ids(&self) -> impl Iterator<Item = i64> {
        self.0.iter().map(|key| key.id)
    }

    /// The keys as text, one per line: to be kept as secret as they are.
    #[must_use]
    pub fn reveal(&self) -> String {
        self.0.iter().flat_map(|key| [key.text.as_str(), "\n"]).collect()
    }

    /// Encrypts `plain` for the row that `row` names.
    ///
    /// # Panics
    /// Not with what fits into memory.
    #[must_use]
    pub fn seal(&self, row: &[u8], plain: &[u8]) -> Sealed {
        let key = &self.0[0];
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let payload = Payload { msg: &pack(plain), aad: row };
        let encrypted =
            key.cipher.encrypt(&XNonce::from(nonce), payload).expect("memory does not fail to be encrypted");
        Sealed { key_id: key.id, bytes: [&nonce[..], &encrypted].concat() }
    }

    /// Decrypts what was sealed for the row that `row` names.
    ///
    /// # Errors
    /// [`SealError`]
    pub fn open(&self, row: &[u8], key_id: i64, bytes: &[u8]) -> Result<Vec<u8>, SealError> {
        if key_id == PLAIN {
            return Ok(bytes.to_vec());
        }
        let key = self.0.iter().find(|key| key.id == key_id).ok_or(SealError::KeyMissing(key_id))?;
        let (nonce, encrypted) = bytes.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Damaged)?;
        let payload = Payload { msg: encrypted, aad: row };
        let packed = key.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| SealError::Damaged)?;
        unpack(&packed).ok_or(SealError::Damaged)
    }
}

impl FromStr for Keys {
    type Err = KeysError;

    /// Keys between spaces, commas or line ends; the first one encrypts.
    fn from_str(text: &str) -> Result<Self, KeysError> {
        let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
        let keys = words.enumerate().map(|(index, word)| {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(word.trim_end_matches('=')).ok();
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

/// Nothing follows but the text.
const AS_IT_IS: u8 = 0;

/// Four bytes follow that say how long the text is, the lowest first, and the compressed text. 1 is not used.
const COMPRESSED: u8 = 2;

/// A byte that tells what follows, and what does.
fn pack(plain: &[u8]) -> Vec<u8> {
    if (WORTH_COMPRESSING..=MAX_INFLATED).contains(&plain.len())
        && let Ok(length) = u32::try_from(plain.len())
        && let compressed = compress(plain)
        && compressed.len() + size_of_val(&length) < plain.len()
    {
        return [&[COMPRESSED], &length.to_le_bytes()[..], &compressed].concat();
    }
    [&[AS_IT_IS], plain].concat()
}

fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    match packed.split_first()? {
        (&AS_IT_IS, plain) => Some(plain.to_vec()),
        (&COMPRESSED, rest) => {
            let (length, compressed) = rest.split_first_chunk()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            // No more memory is taken than is asked for here.
            let plain = if length <= MAX_INFLATED { decompress(compressed, length)? } else { return None };
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
            let sealed = keys.seal(b"row 1", plain);
            assert_eq!(keys.open(b"row 1", sealed.key_id, &sealed.bytes).as_deref(), Ok(plain));
            assert_eq!(keys.open(b"row 2", sealed.key_id, &sealed.bytes), Err(SealError::Damaged));
            let mut damaged = sealed.bytes.clone();
            *damaged.last_mut().expect("there is a tag") ^= 1;
            assert_eq!(keys.open(b"row 1", sealed.key_id, &damaged), Err(SealError::Damaged));
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
        let sealed = before.seal(b"row", b"text");
        let after = before.rotated();
        assert_eq!(after.ids().nth(1), Some(before.primary()));
        assert_ne!(after.primary(), before.primary());
        assert_eq!(after.open(b"row", sealed.key_id, &sealed.bytes).as_deref(), Ok(&b"text"[..]));
        let other = Keys::generate();
        assert_eq!(
            other.open(b"row", sealed.key_id, &sealed.bytes),
            Err(SealError::KeyMissing(before.primary()))
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
