//! Times in the output of commands.

use entity::Timestamp;

/// Returns a time in UTC by RFC 3339, in whole seconds.
pub(super) fn moment(at: Timestamp) -> String {
    at.0.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}
