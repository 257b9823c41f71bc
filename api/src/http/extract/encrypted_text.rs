//! Encrypted texts that a browser stores for the server, in a URL or a cookie. The browser can neither
//! read nor create them: they are encrypted with the keys of the stored data, and each is valid for one
//! purpose.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{encryption::PLAIN, key_ring::KeyRing};

/// The size of the key's identifier at the front, in bytes.
const KEY_ID_BYTES: usize = size_of::<i64>();

/// The size limit of a text to be decrypted, in characters.
const MAX_SEALED: usize = 1_024;

/// The purpose of a text. A text for another purpose cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A link to the content of a performance report.
    ReportLink,
    /// A cookie of a browser with an earlier login.
    Device,
}

impl Purpose {
    /// Returns the associated data that binds a text to its purpose. It cannot equal the name of a row,
    /// which begins with a length.
    fn name(self) -> &'static [u8] {
        match self {
            Self::ReportLink => b"galvo: link to a performance report",
            Self::Device => b"galvo: device that signed in",
        }
    }
}

/// Encrypts a text for its purpose. The result contains only characters that are valid in URLs and
/// cookies.
pub(crate) fn encrypt_text(keys: &KeyRing, purpose: Purpose, text: &str) -> String {
    let sealed = keys.seal(purpose.name(), text.as_bytes());
    URL_SAFE_NO_PAD.encode([&sealed.key_id.to_be_bytes()[..], &sealed.bytes].concat())
}

/// Decrypts a text for its purpose. Returns None if it is not such a text, or its key is not available.
pub(crate) fn decrypt_text(keys: &KeyRing, purpose: Purpose, sealed: &str) -> Option<String> {
    let sealed = (sealed.len() <= MAX_SEALED).then_some(sealed)?;
    let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
    let (key_id, bytes) = bytes.split_first_chunk::<KEY_ID_BYTES>()?;
    let key_id = i64::from_be_bytes(*key_id);
    // A text without encryption does not authenticate its author. Nor is the key file read again for
    // input from anyone.
    if key_id == PLAIN {
        return None;
    }
    String::from_utf8(keys.keys().decrypt_for_row(purpose.name(), key_id, bytes).ok()?).ok()
}
