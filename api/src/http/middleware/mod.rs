//! Layers around the routes: limits, hosts, headers and compression.

pub(super) mod content_coding;
pub(super) mod csrf;
pub(super) mod host;
pub(super) mod rate_limit;
pub(super) mod report_admission;
pub(super) mod request_slot;
pub(super) mod response_compression;
pub(super) mod security_headers;
pub(super) mod token_bucket;
