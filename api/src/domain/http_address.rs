//! Addresses that somebody says the server shall send requests to.

use url::Url;

/// Whether requests can be sent there, and nobody's password stands in it.
pub(crate) fn is_http_address(url: &Url) -> bool {
    let nobody = url.username().is_empty() && url.password().is_none();
    ["http", "https"].contains(&url.scheme()) && url.has_host() && nobody
}
