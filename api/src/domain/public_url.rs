//! The public URL of the server.

use std::{fmt, str::FromStr};

use super::base_path::BasePath;

/// The URL under which browsers reach the server: a scheme, a host, an optional port, and an optional
/// path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    origin: String,
    base: BasePath,
}

impl PublicUrl {
    /// Returns the scheme, host and port, in the format of the `Origin` header.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the host without the port.
    #[must_use]
    pub fn host(&self) -> &str {
        let authority = self.origin.split("://").last().unwrap_or_default();
        match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        }
    }

    /// Returns the base path of the server's own paths.
    #[must_use]
    pub fn base(&self) -> &BasePath {
        &self.base
    }

    /// Returns the full URL of a path of the server.
    #[must_use]
    pub fn url_of(&self, path: &str) -> String {
        format!("{}{}", self.origin, self.base.address(path))
    }

    /// Returns true if the scheme is HTTPS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.origin.starts_with("https:")
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.base.as_str())
    }
}

impl FromStr for PublicUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let message = "must be https://NAME or http://NAME, with a port where it is not the usual one, and perhaps a path as \
                     in https://NAME/galvo";
        let (scheme, remainder) = text.split_once("://").ok_or(message)?;
        let (authority, path) = remainder.split_at(remainder.find('/').unwrap_or(remainder.len()));
        let (scheme, authority) = (scheme.to_ascii_lowercase(), authority.to_ascii_lowercase());
        let default_port = match scheme.as_str() {
            "https" => ":443",
            "http" => ":80",
            _ => return Err(message),
        };
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if authority.is_empty() || !authority.bytes().all(fits) || authority.ends_with(default_port) {
            return Err(message);
        }
        Ok(Self { origin: format!("{scheme}://{authority}"), base: path.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_an_origin_and_a_path() {
        for (text, origin, base, secure) in [
            ("https://galvo.example", "https://galvo.example", "", true),
            ("https://Galvo.Example/", "https://galvo.example", "", true),
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000", "", false),
            ("http://[::1]:8000", "http://[::1]:8000", "", false),
            ("https://galvo.example/path", "https://galvo.example", "/path", true),
            ("HTTPS://Tools.Example:8443/My/Galvo/", "https://tools.example:8443", "/My/Galvo", true),
        ] {
            let url: PublicUrl = text.parse().expect(text);
            assert_eq!((url.origin(), url.base().as_str(), url.is_secure()), (origin, base, secure));
            assert_eq!(url.to_string(), format!("{origin}{base}"));
            assert_eq!(url.url_of("/sign-in?a=b"), format!("{origin}{base}/sign-in?a=b"));
        }
        for text in [
            "",
            "galvo.example",
            "ftp://galvo.example",
            "https://",
            "https:///path",
            "https://a b",
            "https://ada@galvo.example",
            "https://galvo.example:443",
            "https://galvo.example:443/path",
            "http://galvo.example:80",
            "https://galvo.example?x",
            "https://galvo.example/path?x",
            "https://galvo.example/path#x",
            "https://galvo.example//",
            "https://galvo.example/graphql",
        ] {
            assert!(text.parse::<PublicUrl>().is_err(), "{text}");
        }
    }
}
