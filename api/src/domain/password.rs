//! Passwords: what can be one, and what the store keeps of it.

use argon2::{
    Algorithm, Argon2, Params, Version,
    password_hash::{PasswordHasher, PasswordVerifier},
};
use rand::Rng;

/// Characters of a password at the least. Length is what makes one hard to guess, so nothing else is asked for.
const MIN_CHARACTERS: usize = 12;

/// Bytes of a password at the most, so that nobody has a megabyte hashed.
const MAX_BYTES: usize = 1_024;

/// What OWASP asks for of Argon2id with one lane: 19 MiB, and two passes over them.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// What no password hashes to. It takes as long to find that out as of anybody's hash, which is what it is for.
const NOBODYS: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5cyBzYWx0ISEhIQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A text somebody says is their password. It has no `Debug`.
#[derive(Clone)]
pub struct Password(String);

/// Why a text cannot become a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// It could be guessed.
    #[error("must have at least {MIN_CHARACTERS} characters")]
    TooShort,
    /// It would take long to hash.
    #[error("must have at most {MAX_BYTES} bytes")]
    TooLong,
    /// It is the first thing anybody would try.
    #[error("must not be made of the user's name alone")]
    Name,
}

impl Password {
    /// What somebody shows to sign in; `None` when it cannot be anybody's.
    #[must_use]
    pub fn shown(text: String) -> Option<Self> {
        (1..=MAX_BYTES).contains(&text.len()).then_some(Self(text))
    }

    /// What is to be the password of the user with a name.
    ///
    /// # Errors
    /// [`PasswordError`] says what is wrong with it.
    pub fn chosen(text: String, name: &str) -> Result<Self, PasswordError> {
        if text.chars().count() < MIN_CHARACTERS {
            return Err(PasswordError::TooShort);
        }
        let rest = text.to_lowercase().replace(name, "");
        match Self::shown(text) {
            Some(password) if rest.chars().any(char::is_alphanumeric) => Ok(password),
            Some(_) => Err(PasswordError::Name),
            None => Err(PasswordError::TooLong),
        }
    }

    /// What to store of it, with a salt of its own. This takes long, and is meant to.
    ///
    /// # Panics
    /// When there is no memory for it.
    #[must_use]
    pub fn hash(&self, random: &mut impl Rng) -> String {
        let mut salt = [0; 16];
        random.fill_bytes(&mut salt);
        let hash = hasher().hash_password_with_salt(self.0.as_bytes(), &salt);
        hash.expect("the parameters are ours and the password is short").to_string()
    }

    /// Whether it is the one that was stored so, or if nothing was, that it is not. Either takes equally long.
    #[must_use]
    pub fn matches(&self, stored: Option<&str>) -> bool {
        let known = stored.is_some();
        let matches = hasher().verify_password(self.0.as_bytes(), stored.unwrap_or(NOBODYS)).is_ok();
        matches && known
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
        for (text, name, wrong) in [
            ("correct horse", "ada", None),
            ("äöüäöüäöüäöü", "ada", None),
            ("short", "ada", Some(PasswordError::TooShort)),
            ("adaADA-ada ada", "ada", Some(PasswordError::Name)),
            ("adaadaadaada1", "ada", None),
            ("            ", "ada", Some(PasswordError::Name)),
        ] {
            assert_eq!(Password::chosen(text.to_owned(), name).err(), wrong, "{text}");
        }
        assert!(Password::chosen("x".repeat(MAX_BYTES), "ada").is_ok());
        assert_eq!(Password::chosen("x".repeat(MAX_BYTES + 1), "ada").err(), Some(PasswordError::TooLong));
        assert!(
            Password::shown(String::new()).is_none() && Password::shown("x".repeat(MAX_BYTES + 1)).is_none()
        );
    }

    #[test]
    fn a_hash_is_salted_and_matches_its_password_alone() {
        let password = Password::shown("correct horse".to_owned()).expect("short enough");
        let (one, other) = (password.hash(&mut rand::rng()), password.hash(&mut rand::rng()));
        assert_ne!(one, other);
        assert!(password.matches(Some(&one)) && password.matches(Some(&other)));
        assert!(!Password::shown("correct horse ".to_owned()).expect("short enough").matches(Some(&one)));
        assert!(!password.matches(None) && !password.matches(Some(NOBODYS)));
        assert!(!password.matches(Some("")), "what is no hash matches nothing");
        // Whoever is not known costs what somebody who is does.
        let parameters = |hash: &str| hash.split('$').take(4).collect::<Vec<_>>().join("$");
        assert_eq!(parameters(&one), "$argon2id$v=19$m=19456,t=2,p=1");
        assert_eq!(parameters(NOBODYS), parameters(&one));
    }

    #[test]
    fn a_hash_of_another_program_is_understood() {
        // By Python's argon2-cffi, which wraps the reference implementation.
        let known = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$k9ohroejZy1PN5E1SbHNPug6vB8eQAahb5SOAp6iGF4";
        assert!(Password::shown("correct horse".to_owned()).expect("short enough").matches(Some(known)));
        assert!(!Password::shown("correct house".to_owned()).expect("short enough").matches(Some(known)));
    }
}
