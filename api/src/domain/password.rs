//! Passwords: the rules for new ones, and their stored hashes.

use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{PasswordHasher, PasswordVerifier},
};
use rand::Rng;

/// The smallest length of a password, in characters. Length makes a password hard to guess, so there is
/// no other rule about its characters.
const MIN_CHARACTERS: usize = 12;

/// The largest length of a password, in bytes. The limit prevents the hashing of very long input.
const MAX_BYTES: usize = 1_024;

/// The parameters that OWASP recommends for Argon2id with one lane: 19 MiB of memory and two passes.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// A hash that no password has. Its verification takes as long as that of a real hash, which hides that a
/// user does not exist.
const DUMMY_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5cyBzYWx0ISEhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A password that a user entered. It has no `Debug`.
#[derive(Clone)]
pub struct Password(String);

/// The reason for rejecting a new password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// It is too easy to guess.
    #[error("must have at least {MIN_CHARACTERS} characters")]
    TooShort,
    /// It would take long to hash.
    #[error("must have at most {MAX_BYTES} bytes")]
    TooLong,
    /// It consists of the user's name, the first guess of an attacker.
    #[error("must not be made of the user's name alone")]
    Name,
}

impl Password {
    /// Creates a password from the input of a login form. Returns `None` if the length rules out every
    /// valid password.
    #[must_use]
    pub fn from_login(text: String) -> Option<Self> {
        (1..=MAX_BYTES).contains(&text.len()).then_some(Self(text))
    }

    /// Creates a new password for the user with this name.
    ///
    /// # Errors
    /// Returns [`PasswordError`] if the text violates a rule.
    pub fn new_for(text: String, name: &str) -> Result<Self, PasswordError> {
        if text.chars().count() < MIN_CHARACTERS {
            return Err(PasswordError::TooShort);
        }
        let text_without_name = text.to_lowercase().replace(name, "");
        match Self::from_login(text) {
            Some(password) if text_without_name.chars().any(char::is_alphanumeric) => Ok(password),
            Some(_) => Err(PasswordError::Name),
            None => Err(PasswordError::TooLong),
        }
    }

    /// Returns a hash to store, with a salt of its own. The computation is slow on purpose.
    ///
    /// # Panics
    /// Panics if memory is exhausted.
    #[must_use]
    pub fn hash(&self, random: &mut impl Rng) -> String {
        let mut salt = [0; 16];
        random.fill_bytes(&mut salt);
        let hash = hasher().hash_password_with_salt(self.0.as_bytes(), &salt);
        hash.expect("the parameters are ours and the password is short").to_string()
    }

    /// Returns true if the password has the stored hash. Returns false for `None`, after the same
    /// computation time.
    #[must_use]
    pub fn matches(&self, stored: Option<&str>) -> bool {
        let has_password = stored.is_some();
        let matches = hasher().verify_password(self.0.as_bytes(), stored.unwrap_or(DUMMY_HASH)).is_ok();
        matches && has_password
    }
}

fn hasher() -> Argon2<'static> {
    let params =
        Params::new(MEMORY_KIB, PASSES, LANES, None).expect("they are within the algorithm's bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_long_and_not_the_name() {
        for (text, name, expected) in [
            ("correct horse", "ada", None),
            ("äöüäöüäöüäöü", "ada", None),
            ("short", "ada", Some(PasswordError::TooShort)),
            ("adaADA-ada ada", "ada", Some(PasswordError::Name)),
            ("adaadaadaada1", "ada", None),
            ("            ", "ada", Some(PasswordError::Name)),
        ] {
            assert_eq!(Password::new_for(text.to_owned(), name).err(), expected, "{text}");
        }
        assert!(Password::new_for("x".repeat(MAX_BYTES), "ada").is_ok());
        assert_eq!(Password::new_for("x".repeat(MAX_BYTES + 1), "ada").err(), Some(PasswordError::TooLong));
        assert!(
            Password::from_login(String::new()).is_none()
                && Password::from_login("x".repeat(MAX_BYTES + 1)).is_none()
        );
    }

    #[test]
    fn a_hash_is_salted_and_matches_its_password_alone() {
        let password = Password::from_login("correct horse".to_owned()).expect("short enough");
        let (one, other) = (password.hash(&mut rand::rng()), password.hash(&mut rand::rng()));
        assert_ne!(one, other);
        assert!(password.matches(Some(&one)) && password.matches(Some(&other)));
        assert!(
            !Password::from_login("correct horse ".to_owned()).expect("short enough").matches(Some(&one))
        );
        assert!(!password.matches(None) && !password.matches(Some(DUMMY_HASH)));
        assert!(!password.matches(Some("")), "what is no hash matches nothing");
        // Verification takes as long for an unknown user as for a known one.
        let parameters = |hash: &str| hash.split('$').take(4).collect::<Vec<_>>().join("$");
        assert_eq!(parameters(&one), "$argon2id$v=19$m=19456,t=2,p=1");
        assert_eq!(parameters(DUMMY_HASH), parameters(&one));
    }

    #[test]
    fn a_hash_of_another_program_is_understood() {
        // This hash is from Python's argon2-cffi, which wraps the reference implementation.
        let known = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$k9ohroejZy1PN5E1SbHNPug6vB8eQAahb5SOAp6iGF4";
        assert!(Password::from_login("correct horse".to_owned()).expect("short enough").matches(Some(known)));
        assert!(
            !Password::from_login("correct house".to_owned()).expect("short enough").matches(Some(known))
        );
    }
}
