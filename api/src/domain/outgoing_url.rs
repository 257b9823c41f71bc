//! Validation of user-supplied URLs to which the server sends requests.

use url::Url;

/// Returns true if the URL is an HTTP URL with a host and without credentials.
pub(crate) fn is_plain_http_url(url: &Url) -> bool {
    let has_no_credentials = url.username().is_empty() && url.password().is_none();
    ["http", "https"].contains(&url.scheme()) && url.has_host() && has_no_credentials
}
