//! API tokens: `<identifier>-<secret>`. The identifier selects the row, and the secret proves the right
//! to use it.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::{Rng, RngExt, distr::Alphanumeric};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const IDENTIFIER_LENGTH: usize = 16;
const SECRET_BYTES: usize = 32;

/// A token as its holder has it. `Debug` shows only the identifier.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiToken {
    identifier: String,
    secret: String,
}

/// The stored hash of a token's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretHash([u8; 32]);

impl ApiToken {
    /// Creates a token. The secret has 256 random bits.
    pub fn generate(random: &mut impl Rng) -> Self {
        let identifier = random
            .sample_iter(Alphanumeric)
            .take(IDENTIFIER_LENGTH)
            .map(|byte| char::from(byte).to_ascii_lowercase())
            .collect();
        let mut secret = [0; SECRET_BYTES];
        random.fill_bytes(&mut secret);
        Self { identifier, secret: URL_SAFE_NO_PAD.encode(secret) }
    }

    /// Parses a token from a client. Returns `None` if the text cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (identifier, secret) = text.split_once('-')?;
        let plausible = Self::is_identifier(identifier) && (1..=256).contains(&secret.len());
        plausible.then(|| Self { identifier: identifier.to_owned(), secret: secret.to_owned() })
    }

    /// Returns true if the text can be the public half of a token.
    #[must_use]
    pub fn is_identifier(text: &str) -> bool {
        (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    }

    /// Returns the public half.
    #[must_use]
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Returns the hash of the secret half.
    #[must_use]
    pub fn secret_hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.secret.as_bytes()).into())
    }

    /// Returns the whole token, to display it to its holder once.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{}-{}", self.identifier, self.secret)
    }
}

impl fmt::Debug for ApiToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiToken").field("identifier", &self.identifier).finish_non_exhaustive()
    }
}

impl SecretHash {
    /// Returns the bytes to store.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// Returns true if the hashes are equal. The comparison takes constant time.
    #[must_use]
    pub fn matches(&self, stored: &[u8]) -> bool {
        self.0.ct_eq(stored).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_token_is_read_back_and_matches_only_itself() {
        let (one, other) = (ApiToken::generate(&mut rand::rng()), ApiToken::generate(&mut rand::rng()));
        let read = ApiToken::parse(&one.reveal()).expect("our own notation");
        assert_eq!(read, one);
        assert!(read.secret_hash().matches(&one.secret_hash().to_vec()));
        assert!(!other.secret_hash().matches(&one.secret_hash().to_vec()));
        assert_eq!(one.identifier().len(), IDENTIFIER_LENGTH);
        assert!(one.reveal().len() > 59);
    }

    #[test]
    fn the_secret_hash_is_sha_256_of_the_secret() {
        // echo -n abc | sha256sum
        let token = ApiToken::parse("id-abc").expect("a token");
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hex =
            token.secret_hash().to_vec().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        assert_eq!(hex, expected);
    }

    #[test]
    fn debug_hides_the_secret() {
        let token = ApiToken::parse("id-topsecret").expect("a token");
        assert!(!format!("{token:?}").contains("topsecret"));
    }

    #[test]
    fn what_cannot_be_a_token_is_not_one() {
        for text in ["", "-", "abc", "-secret", "id-", "i d-x", "ä-x"] {
            assert_eq!(ApiToken::parse(text), None, "{text}");
        }
        assert_eq!(ApiToken::parse(&format!("id-{}", "x".repeat(257))), None);
    }
}
