//! Users to create, and their names.

use entity::{Timestamp, ids::UserId, user};
use rand::Rng;
use sha2::{Digest, Sha256};
use uuid::Builder;

use super::slug::Slug;

/// The largest number of characters that are taken from an issuer's name of a user.
const MAX_NAME_CHARACTERS: usize = 40;

/// Creates a user to store. The id does not reveal its time of creation: an administrator who adds a user
/// must not learn if the name already existed, which concerns other accounts.
#[must_use]
pub fn new_user(name: &Slug, random: &mut impl Rng, now: Timestamp) -> user::Model {
    let mut bytes = [0; 16];
    random.fill_bytes(&mut bytes);
    let id = UserId(Builder::from_random_bytes(bytes).into_uuid());
    user::Model { id, name: name.to_string(), created_at: now }
}

/// Returns the local name of a user that an issuer identifies by `subject` and names `called`. The name
/// ends with `digits` characters of a hash of issuer and subject. Otherwise an issuer could send a user
/// with the name of an existing user, or of one whom an account is about to add by name.
///
/// # Panics
/// Never panics, because the result contains only valid characters.
#[must_use]
pub fn local_name(called: &str, issuer: &str, subject: &str, digits: usize) -> Slug {
    let before_at = called.split('@').next().unwrap_or_default();
    let mut name = String::new();
    for c in before_at.chars().take(MAX_NAME_CHARACTERS).map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = name.trim_end_matches('-');
    let name = if name.is_empty() { "user" } else { name };
    let hash = Sha256::new().chain_update(issuer).chain_update([0]).chain_update(subject).finalize();
    let end: String =
        hash.iter().flat_map(|byte| [byte >> 4, byte & 15]).take(digits).map(hexadecimal).collect();
    format!("{name}-{end}").parse().expect("it has such characters alone, and is short enough")
}

fn hexadecimal(digit: u8) -> char {
    char::from_digit(digit.into(), 16).expect("half a byte is one digit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_the_issuer_calls_somebody_and_who_it_is() {
        let long = "x".repeat(100);
        for (called, start) in [
            ("ada", "ada-"),
            ("Ada.Lovelace@example.com", "ada-lovelace-"),
            ("auth0|5f7c", "auth0-5f7c-"),
            ("_-- Ada  Lovelace --", "ada-lovelace-"),
            ("Zoë", "zo-"),
            ("日本", "user-"),
            ("", "user-"),
            ("@example.com", "user-"),
            (long.as_str(), &format!("{}-", "x".repeat(40))),
        ] {
            let name = local_name(called, "https://issuer", "1", 6).to_string();
            // printf 'https://issuer\0001' | sha256sum | head -c 6
            assert_eq!(name, format!("{start}4efb23"), "{called}");
        }
        let name = |issuer, subject| local_name("ada", issuer, subject, 16);
        assert_ne!(name("https://issuer", "1"), name("https://issuer", "2"));
        assert_ne!(name("https://issuer", "1"), name("https://issue", "r1"));
    }
}
