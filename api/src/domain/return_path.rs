//! Where a browser goes when it is signed in: to where it came from, if that is a place of this server.

/// Bytes of such a path at the most.
const MAX_LENGTH: usize = 2_048;

/// A path of this server, with its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReturnPath(String);

impl ReturnPath {
    /// What a request asks to return to, or the front page when that could lead elsewhere. Browsers read `//` and `/\` as
    /// the beginning of another server's name, and leave out line breaks and tabs wherever they stand.
    #[must_use]
    pub fn of(wanted: &str) -> Self {
        let ours = wanted.starts_with('/')
            && !wanted.starts_with("//")
            && wanted.len() <= MAX_LENGTH
            && wanted.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        Self(if ours { wanted.to_owned() } else { "/".to_owned() })
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_server_can_be_returned_to() {
        for path in ["/", "/activate-token?id=abc", "/graphql?query=%7B", "/a//b", "/%5C/evil"] {
            assert_eq!(ReturnPath::of(path).as_str(), path);
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
            &long,
        ] {
            assert_eq!(ReturnPath::of(path).as_str(), "/", "{path}");
        }
    }
}
