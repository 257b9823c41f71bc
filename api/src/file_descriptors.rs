//! The process's limit of file descriptors, and the number of connections that fits within it.

use rustix::process::{Resource, getrlimit};

use crate::{
    config::{CommonConfig, ServeConfig},
    store::StoreUrl,
};

/// File descriptors besides those of connections: for the SQLite database, the log, the bus, and
/// outgoing requests.
const OTHER_DESCRIPTORS: u64 = 64;

/// The minimum number of connections. If not even these fit, accepting a connection fails and is
/// retried.
const MIN_CONNECTIONS: u64 = 16;

/// Returns the process's limit of file descriptors. `None` if there is no limit.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the maximum number of file descriptors a server with these settings needs.
pub(crate) fn required_descriptors(common: &CommonConfig, serve: &ServeConfig) -> u64 {
    serve.max_connections as u64 + other_descriptors(common)
}

/// Returns the settings with as many connections as fit within the process's limit. Without free file
/// descriptors, connections could not be accepted, and the database could not open its files.
pub(crate) fn limit_connections(common: &CommonConfig, serve: &ServeConfig) -> ServeConfig {
    let connections =
        limit().map_or(usize::MAX, |limit| max_connections_within(limit, other_descriptors(common)));
    if connections >= serve.max_connections {
        return serve.clone();
    }
    tracing::warn!(
        limit = limit().unwrap_or(u64::MAX),
        needed = required_descriptors(common, serve),
        configured = serve.max_connections,
        connections,
        "the limit of file descriptors is too low for GALVO_MAX_CONNECTIONS, so fewer connections are \
         accepted: raise the limit (ulimit -n, LimitNOFILE of systemd), or lower the setting"
    );
    ServeConfig { max_connections: connections, ..serve.clone() }
}

fn max_connections_within(limit: u64, other_descriptors: u64) -> usize {
    usize::try_from(limit.saturating_sub(other_descriptors).max(MIN_CONNECTIONS)).unwrap_or(usize::MAX)
}

fn other_descriptors(common: &CommonConfig) -> u64 {
    let pool_size = match common.database {
        StoreUrl::Postgres(_) => u64::from(common.connections),
        StoreUrl::Sqlite { .. } => 0,
    };
    pool_size + OTHER_DESCRIPTORS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_is_not_for_connections() {
        for (limit, others, connections) in [(128, 64, 64), (1024, 80, 944), (64, 64, 16), (10, 64, 16)] {
            assert_eq!(max_connections_within(limit, others), connections, "{limit}, {others}");
        }
    }
}
