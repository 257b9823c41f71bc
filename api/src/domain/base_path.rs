//! The base path under which browsers reach the server. All paths that the server sends out are built
//! here.

use std::{str::FromStr, sync::Arc};

/// The first segments of the server's own paths. As a base they would be ambiguous, because a proxy may
/// remove the base or keep it. As the name of an account they would hide its pages in the dashboard.
const RESERVED_SEGMENTS: [&str; 12] = [
    "activate-token",
    "api",
    "assets",
    "clusters",
    "graphql",
    "healthz",
    "metrics",
    "password",
    "readyz",
    "reports",
    "sign-in",
    "sign-out",
];

/// Returns true for the first segment of a path of the server itself.
#[must_use]
pub fn is_reserved(segment: &str) -> bool {
    RESERVED_SEGMENTS.contains(&segment)
}

/// The path before the server's own paths in every address. Empty on a host of its own, otherwise such as
/// `/galvo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BasePath(Arc<str>);

impl BasePath {
    /// Returns the address of a path and query of the server, on the public host.
    #[must_use]
    pub fn address(&self, path: &str) -> String {
        debug_assert!(path.starts_with('/'), "{path}");
        format!("{}{path}", self.0)
    }

    /// Removes the base from an address on the public host. Returns `None` if the address is outside the
    /// base.
    #[must_use]
    pub fn strip<'a>(&self, address: &'a str) -> Option<&'a str> {
        let path = address.strip_prefix(&*self.0)?;
        (self.is_empty() || path.is_empty() || path.starts_with(['/', '?'])).then_some(path)
    }

    /// Returns the path for cookies. It covers all paths of the server, and no other application on the
    /// host.
    #[must_use]
    pub fn cookie_path(&self) -> &str {
        if self.is_empty() { "/" } else { &self.0 }
    }

    /// Returns the base without a trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the server has the host for itself.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for BasePath {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.strip_suffix('/').unwrap_or(text);
        let Some(path) = text.strip_prefix('/') else {
            return if text.is_empty() { Ok(Self::default()) } else { Err("a path must begin with a slash") };
        };
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let mut segments = path.split('/');
        if segments.clone().any(|segment| matches!(segment, "" | "." | "..") || !segment.bytes().all(fits)) {
            return Err(
                "a path must be as in /galvo or /tools/galvo: letters, digits and -._~ between single slashes",
            );
        }
        let (first, second) = (segments.next().unwrap_or_default(), segments.next());
        // A deeper path belongs to the server only if it is part of the API.
        if is_reserved(first) && (second.is_none() || first == "api" && matches!(second, Some("v1" | "v2"))) {
            return Err("this path is used by the server itself: choose another one, such as /galvo");
        }
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_begin_with_the_base_and_lose_it_again() {
        let (host, base): (BasePath, BasePath) =
            (BasePath::default(), "/tools/Galvo/".parse().expect("a path"));
        assert_eq!((host.address("/"), base.address("/")), ("/".to_owned(), "/tools/Galvo/".to_owned()));
        assert_eq!(base.address("/graphql?query=%7B"), "/tools/Galvo/graphql?query=%7B");
        assert_eq!((host.cookie_path(), base.cookie_path()), ("/", "/tools/Galvo"));
        for (address, own, on_its_host) in [
            ("/tools/Galvo", Some(""), Some("/tools/Galvo")),
            ("/tools/Galvo/", Some("/"), Some("/tools/Galvo/")),
            ("/tools/Galvo?a", Some("?a"), Some("/tools/Galvo?a")),
            ("/tools/Galvo/graphql", Some("/graphql"), Some("/tools/Galvo/graphql")),
            ("/tools/Galvo2/graphql", None, Some("/tools/Galvo2/graphql")),
            ("/tools/galvo/graphql", None, Some("/tools/galvo/graphql")),
            ("/graphql", None, Some("/graphql")),
        ] {
            assert_eq!((base.strip(address), host.strip(address)), (own, on_its_host), "{address}");
        }
    }

    #[test]
    fn a_base_has_one_meaning() {
        for text in [
            "",
            "/",
            "/galvo",
            "/galvo/",
            "/services/galvo",
            "/user/ada/proxy/8000",
            "/api/galvo",
            "/a.b~c_d-e",
        ] {
            assert!(text.parse::<BasePath>().is_ok(), "{text}");
        }
        for text in [
            "galvo",
            "//",
            "//galvo",
            "/galvo//",
            "/a//b",
            "/..",
            "/a/../b",
            "/./a",
            "/a b",
            "/a%20b",
            "/a?b",
            "/a#b",
            "/a;b",
            "/ä",
            "/\"a",
            "/graphql",
            "/graphql/",
            "/api",
            "/api/v1",
            "/api/v2/galvo",
            "/sign-in",
            "/assets",
        ] {
            assert!(text.parse::<BasePath>().is_err(), "{text}");
        }
    }
}
