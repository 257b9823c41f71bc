//! Checks of the machine: disk space for the database, and file descriptors for connections.

use std::{fs, path::Path};

use rustix::fs::statvfs;

use super::Finding;
use crate::{
    config::{CommonConfig, ServeConfig},
    file_descriptors,
    store::StoreUrl,
};

/// The free space below which the disk counts as full, in bytes.
const MIN_FREE_BYTES: u64 = 256 << 20;

/// The free space below which the finding is a warning, in bytes.
const LOW_FREE_BYTES: u64 = 2 << 30;

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
                format!("cannot read the free space of {}: {error}", directory.display()),
                "create the directory, and give the server's user write access to it",
            ),
        });
    }
    findings.push(judge_descriptors(
        file_descriptors::limit(),
        file_descriptors::required_descriptors(common, serve),
    ));
    findings
}

fn judge_space(available: u64, store_size: u64) -> Finding {
    let message = format!("{} MiB free, database size {} MiB", available >> 20, store_size >> 20);
    if available < MIN_FREE_BYTES {
        Finding::failed(
            "disk",
            message,
            "free disk space: the server cannot store reports when the disk is full",
        )
    } else if available < LOW_FREE_BYTES || available < store_size {
        Finding::warning(
            "disk",
            message,
            "free disk space, or shorten the retention: a backup would not fit on this disk",
        )
    } else {
        Finding::ok("disk", message)
    }
}

fn judge_descriptors(limit: Option<u64>, needed: u64) -> Finding {
    match limit {
        Some(limit) if limit < needed => Finding::failed(
            "file descriptors",
            format!("the limit is {limit}, and the process may need {needed}"),
            format!(
                "raise the limit (ulimit -n {needed}, LimitNOFILE of systemd), or lower GALVO_MAX_CONNECTIONS"
            ),
        ),
        Some(limit) => Finding::ok(
            "file descriptors",
            format!("the limit is {limit}, and the process needs at most {needed}"),
        ),
        None => Finding::ok("file descriptors", "unlimited"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn space_is_judged_by_what_it_is_for() {
        let gib = 1 << 30;
        for (available, store_size, verdict) in [
            (100 << 20, 0, Verdict::Failed),
            (gib, 0, Verdict::Warning),
            (10 * gib, 11 * gib, Verdict::Warning),
            (10 * gib, 9 * gib, Verdict::Ok),
        ] {
            assert_eq!(judge_space(available, store_size).verdict, verdict, "{available}, {store_size}");
        }
    }
}
