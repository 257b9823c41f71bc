//! Signatures, by which a receiver verifies the sender and the time of a message.

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Returns the value of the header `Galvo-Signature`: the time in seconds, and the HMAC-SHA-256 of the
/// time, a dot and the body, in hexadecimal digits. The key is the secret in the form in which it was
/// displayed.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "HMAC accepts keys of any length")]
pub fn sign(secret: &str, at: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("it takes keys of any length");
    mac.update(format!("{at}.").as_bytes());
    mac.update(body);
    mac.finalize().into_bytes().iter().fold(format!("t={at},v1="), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a `String` accepts every write
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_hmac_sha_256() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret
        let expected = "t=1700000000,v1=49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686";
        assert_eq!(sign("secret", 1_700_000_000, br#"{"a":1}"#), expected);
    }
}
