//! Short names for URLs and the command line.

use std::{borrow::Cow, fmt, str::FromStr};

/// A short name: lower-case letters, digits, `-` and `_`, beginning with a letter or digit; at most 63
/// characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slug(Cow<'static, str>);

impl Slug {
    /// Creates a slug from a constant that is known to be valid.
    pub(crate) const fn from_static(slug: &'static str) -> Self {
        Self(Cow::Borrowed(slug))
    }

    /// Returns the slug as a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Slug {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        if (1..=63).contains(&text.len()) && text.chars().all(fits) && !text.starts_with(['-', '_']) {
            Ok(Self(Cow::Owned(text.to_owned())))
        } else {
            Err("must be 1 to 63 lower-case letters, digits, '-' or '_', beginning with a letter or digit")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs() {
        for text in ["a", "team-1", "0_x"] {
            assert!(text.parse::<Slug>().is_ok(), "{text}");
        }
        for text in ["", "-a", "Team", "a b", "a/b", "ä", &"a".repeat(64)] {
            assert!(text.parse::<Slug>().is_err(), "{text}");
        }
    }
}
