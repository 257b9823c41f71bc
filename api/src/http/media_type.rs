//! What a client accepts.

/// The media ranges of an `Accept` header, in the order in which they stand.
pub(super) fn ranges(accept: &str) -> impl Iterator<Item = String> {
    accept.split(',').filter_map(|range| Some(range.split(';').next()?.trim().to_ascii_lowercase()))
}
