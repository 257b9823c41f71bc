//! The machine: space for the store, and file descriptors for connections.

use std::{fs, path::Path};

use rustix::{
    fs::statvfs,
    process::{Resource, getrlimit},
};

use super::Finding;
use crate::{
    config::{CommonConfig, ServeConfig},
    store::StoreUrl,
};

/// File descriptors besides those of connections: of the store, its log, the bus, and what is asked of others.
const OTHER_FILES: u64 = 64;

/// Below so many bytes a store is as good as full.
const FULL: u64 = 256 << 20;

/// With less than so many bytes somebody should look.
const SCARCE: u64 = 2 << 30;

pub(super) fn examine(common: &CommonConfig, serve: &ServeConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let StoreUrl::Sqlite { path, .. } = &common.database {
        let directory =
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        findings.push(match statvfs(directory) {
            Ok(space) => {
                let available = space.f_bavail.saturating_mul(space.f_frsize);
                judge_space(available, fs::metadata(path).map_or(0, |file| file.len()))
            }
            Err(error) => Finding::failed(
                "disk",
                format!("nothing can be told of {}: {error}", directory.display()),
                "make the directory, and let the server's user write into it",
            ),
        });
    }
    let pool = match common.database {
        StoreUrl::Postgres(_) => u64::from(common.connections),
        StoreUrl::Sqlite { .. } => 0,
    };
    let needed = serve.max_connections as u64 + pool + OTHER_FILES;
    findings.push(judge_files(getrlimit(Resource::Nofile).current, needed));
    findings
}

fn judge_space(available: u64, store: u64) -> Finding {
    let message = format!("{} MiB are free, the store has {} MiB", available >> 20, store >> 20);
    if available < FULL {
        Finding::failed("disk", message, "make room: a store that cannot grow takes no reports")
    } else if available < SCARCE || available < store {
        Finding::warning(
            "disk",
            message,
            "make room, or keep data for less long: a backup beside it would not fit",
        )
    } else {
        Finding::ok("disk", message)
    }
}

fn judge_files(limit: Option<u64>, needed: u64) -> Finding {
    match limit {
        Some(limit) if limit < needed => Finding::failed(
            "file descriptors",
            format!("the process may have {limit} and may need {needed}"),
            format!(
                "raise the limit (ulimit -n {needed}, LimitNOFILE of systemd), or lower GALVO_MAX_CONNECTIONS"
            ),
        ),
        Some(limit) => Finding::ok(
            "file descriptors",
            format!("the process may have {limit} and needs {needed} at the most"),
        ),
        None => Finding::ok("file descriptors", "the process may have any number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn space_is_judged_by_what_it_is_for() {
        let gib = 1 << 30;
        for (available, store, verdict) in [
            (100 << 20, 0, Verdict::Failed),
            (gib, 0, Verdict::Warning),
            (10 * gib, 11 * gib, Verdict::Warning),
            (10 * gib, 9 * gib, Verdict::Ok),
        ] {
            assert_eq!(judge_space(available, store).verdict, verdict, "{available}, {store}");
        }
    }
}
