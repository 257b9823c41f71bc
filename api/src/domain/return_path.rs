//! Return paths after a sign-in: the page that the browser came from, if it is a page of this server.

use super::base_path::BasePath;

/// The largest length of a return path, in bytes.
const MAX_LENGTH: usize = 2_048;

/// A path of the server with its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnPath(String);

impl ReturnPath {
    /// Validates a requested return path. Returns the front page for a path that could lead elsewhere.
    /// Browsers interpret `//` and `/\` as the start of another host, remove line breaks and tabs
    /// everywhere, and let dot segments lead out of the server's base path.
    #[must_use]
    pub fn sanitize(path: &str) -> Self {
        let is_own_path = path.starts_with('/')
            && !path.starts_with("//")
            && path.len() <= MAX_LENGTH
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
            && !has_dot_segment(path);
        Self(if is_own_path { path.to_owned() } else { "/".to_owned() })
    }

    /// Validates a requested return path that may contain the base path. A path outside the base is
    /// interpreted as a path of the server, which it can be if a proxy removes the base.
    #[must_use]
    pub fn sanitize_address(path: &str, base: &BasePath) -> Self {
        Self::sanitize(base.strip(path).unwrap_or(path))
    }

    /// Returns the path as a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns true if a segment of the path is one or two dots, literally or in a percent encoding that
/// browsers accept.
fn has_dot_segment(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.split('/')
        .any(|segment| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_server_can_be_returned_to() {
        for path in
            ["/", "/activate-token?id=abc", "/graphql?query=%7B", "/a//b", "/%5C/evil", "/a...b/..c?../.."]
        {
            assert_eq!(ReturnPath::sanitize(path).as_str(), path);
        }
        let long = format!("/{}", "a".repeat(MAX_LENGTH));
        for path in [
            "",
            "a",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example",
            "/\t/evil.example",
            "/\n/evil",
            "javascript:alert(1)",
            " /",
            "/a b",
            "/ä",
            "/..",
            "/../other",
            "/a/./b",
            "/a/.%2E/.%2e/other",
            "/%2e%2e/other?a",
            &long,
        ] {
            assert_eq!(ReturnPath::sanitize(path).as_str(), "/", "{path}");
        }
    }

    #[test]
    fn an_address_is_read_below_the_base() {
        let base = "/galvo".parse().expect("a path");
        for (address, path) in [
            ("/galvo/graphql?query=%7B", "/graphql?query=%7B"),
            ("/galvo/", "/"),
            ("/galvo", "/"),
            ("/galvo?a", "/"),
            ("/galvo//evil.example", "/"),
            ("/galvo/../other", "/"),
            ("/galvo/%2e%2e/other", "/"),
            // A path without the base stays on the server.
            ("/graphql", "/graphql"),
            ("/other/app", "/other/app"),
            ("https://evil.example/galvo/", "/"),
        ] {
            assert_eq!(ReturnPath::sanitize_address(address, &base).as_str(), path, "{address}");
        }
    }
}
