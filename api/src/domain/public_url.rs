//! How the server is called from outside.

use std::{fmt, str::FromStr};

/// The address browsers know the server by: a scheme, a name, and perhaps a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl(String);

impl PublicUrl {
    /// The address without a slash at its end, as browsers write it into `Origin`.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.0
    }

    /// Whether the way to it is encrypted.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.0.starts_with("https:")
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PublicUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "must be https://NAME or http://NAME, with a port where it is not the usual one, and nothing behind it";
        let text = text.strip_suffix('/').unwrap_or(text).to_ascii_lowercase();
        let (scheme, authority) = text.split_once("://").ok_or(wrong)?;
        let usual = match scheme {
            "https" => ":443",
            "http" => ":80",
            _ => return Err(wrong),
        };
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if authority.is_empty() || !authority.bytes().all(fits) || authority.ends_with(usual) {
            return Err(wrong);
        }
        Ok(Self(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_an_origin() {
        for (text, origin, secure) in [
            ("https://galvo.example", "https://galvo.example", true),
            ("https://Galvo.Example/", "https://galvo.example", true),
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000", false),
            ("http://[::1]:8000", "http://[::1]:8000", false),
        ] {
            let url: PublicUrl = text.parse().expect(text);
            assert_eq!((url.origin(), url.is_secure()), (origin, secure));
        }
        for text in [
            "",
            "galvo.example",
            "ftp://galvo.example",
            "https://",
            "https://galvo.example/path",
            "https://a b",
            "https://ada@galvo.example",
            "https://galvo.example:443",
            "http://galvo.example:80",
            "https://galvo.example?x",
        ] {
            assert!(text.parse::<PublicUrl>().is_err(), "{text}");
        }
    }
}
