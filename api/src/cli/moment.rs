//! Times in the output of commands.

use entity::Timestamp;

/// Formats a time in UTC according to RFC 3339, in whole seconds.
pub(super) fn format_time(at: Timestamp) -> String {
    at.0.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}
