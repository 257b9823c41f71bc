//! Links with which users sign in once: the secret and its lifetime.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use entity::Timestamp;
use rand::Rng;
use sha2::{Digest, Sha256};

/// The time within which a link can be used.
const LIFETIME: TimeDelta = TimeDelta::minutes(15);

/// The path of the page that accepts links.
const PATH: &str = "/sign-in/link";

/// The secret of a link: 256 random bits. It has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkSecret([u8; 32]);

impl LinkSecret {
    /// Creates a secret.
    pub fn generate(random: &mut impl Rng) -> Self {
        let mut secret = [0; 32];
        random.fill_bytes(&mut secret);
        Self(secret)
    }

    /// Parses the text of a form. Returns `None` if it is not a secret.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // The length is checked first, so that longer input is not decoded.
        let plausible = (text.len() == 43).then_some(text)?;
        URL_SAFE_NO_PAD.decode(plausible).ok()?.try_into().ok().map(Self)
    }

    /// Returns the stored hash, which identifies the link.
    #[must_use]
    pub fn id(&self) -> Vec<u8> {
        Sha256::digest(self.0).to_vec()
    }

    /// Returns the path and fragment of the link. A browser does not send the fragment, so that the secret
    /// reaches no log of a proxy and no `Referer` header.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{PATH}#{}", URL_SAFE_NO_PAD.encode(self.0))
    }
}

/// Returns the end of a link that is created now.
#[must_use]
pub fn link_end(now: Timestamp) -> Timestamp {
    (now.0 + LIFETIME).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_back_from_its_link() {
        let (one, other) = (LinkSecret::generate(&mut rand::rng()), LinkSecret::generate(&mut rand::rng()));
        let path = one.path();
        let text = path.strip_prefix("/sign-in/link#").expect("the page of links");
        let read = LinkSecret::parse(text).expect("it is one");
        assert!(read == one && read != other);
        for text in ["", "x", &"A".repeat(42), &"A".repeat(44), &"!".repeat(43), &path] {
            assert!(LinkSecret::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn sha_256_is_stored() {
        // head -c 32 /dev/zero | sha256sum
        let id =
            LinkSecret([0; 32]).id().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        assert_eq!(id, "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925");
    }
}
