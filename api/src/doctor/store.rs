//! Checks of the database: its presence, permissions, migrations and clock.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::MetadataExt,
    path::Path,
};

use chrono::SecondsFormat;
use entity::{
    Timestamp,
    retention_watch::{self, Hold},
};

use super::Finding;
use crate::{
    config::CommonConfig,
    error::Chain,
    store::{Diagnostics, Migrations, StoreUrl, SystemStore},
};

/// The oldest supported version of PostgreSQL, as `server_version_num`.
const OLDEST_POSTGRES: i32 = 130_000;

/// The clock difference from which a warning is due, in milliseconds.
const SMALL_DIFFERENCE: i64 = 1_000;

/// The clock difference from which times become meaningless, in milliseconds.
const LARGE_DIFFERENCE: i64 = 60_000;

/// Adds the findings to `findings`. Returns the store if it could be opened and has its tables.
pub(super) async fn examine(common: &CommonConfig, findings: &mut Vec<Finding>) -> Option<SystemStore> {
    if let StoreUrl::Sqlite { path, create, .. } = &common.database
        && !examine_file(path, *create, findings)
    {
        return None;
    }
    let store = match SystemStore::connect(&common.database, 2).await {
        Ok(store) => store,
        Err(error) => {
            let advice = "start the database, or correct GALVO_DATABASE_URL";
            findings.push(Finding::failed(
                "store",
                format!("{}: {}", common.database, Chain(&error)),
                advice,
            ));
            return None;
        }
    };
    match store.run_diagnostics().await {
        Ok(diagnostics) => {
            findings.extend(judge(common, &diagnostics));
            // The query fails if the table does not exist yet. There is nothing to report then.
            if let Ok(Some(watch)) = store.retention_watch().await {
                findings.extend(judge_retention(&watch));
            }
            // The later checks query tables that do not exist before the migrations.
            if let Migrations::NoneApplied(_) = diagnostics.migrations {
                return None;
            }
        }
        Err(error) => {
            let message = format!("{}: {}", common.database, Chain(&error));
            findings.push(Finding::failed("store", message, "see the database's own log"));
        }
    }
    Some(store)
}

/// Checks the file of an SQLite database. Returns true if it can be opened.
fn examine_file(path: &Path, create: bool, findings: &mut Vec<Finding>) -> bool {
    match fs::metadata(path) {
        Ok(file) => {
            if file.mode() & 0o077 != 0 {
                let message = format!("{} is readable by other users", path.display());
                findings.push(Finding::warning("store", message, format!("chmod 600 {}", path.display())));
            }
            // SQLite would open the file read-only and create read-only files beside it.
            if let Err(error) = OpenOptions::new().write(true).open(path) {
                findings.push(Finding::failed(
                    "rights",
                    format!("the database is not writable: {}: {error}", path.display()),
                    "give the server's user write access to the file and its directory",
                ));
                return false;
            }
            true
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && create => {
            let message = format!("{} does not exist yet", path.display());
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            findings.push(if directory.is_none_or(Path::is_dir) {
                Finding::warning(
                    "store",
                    message,
                    "`galvo serve` creates it; if it should exist, correct GALVO_DATABASE_URL",
                )
            } else {
                Finding::failed("store", message, "create its directory")
            });
            false
        }
        Err(error) => {
            let message = format!("{} cannot be opened: {error}", path.display());
            findings.push(Finding::failed(
                "store",
                message,
                "correct GALVO_DATABASE_URL, or the permissions of the file",
            ));
            false
        }
    }
}

fn judge(common: &CommonConfig, diagnostics: &Diagnostics) -> Vec<Finding> {
    let Diagnostics { version, writable, migrations, server } = diagnostics;
    let mut findings = Vec::new();
    let message = format!("{}, version {version}", common.database);
    let is_unsupported = server.as_ref().is_some_and(|server| server.version < OLDEST_POSTGRES);
    findings.push(if is_unsupported {
        Finding::failed("store", message, "upgrade to PostgreSQL 13 or newer")
    } else {
        Finding::ok("store", message)
    });
    findings.push(match writable {
        Ok(()) => Finding::ok("rights", "the database is writable"),
        Err(reason) => Finding::failed(
            "rights",
            format!("the database is not writable: {reason}"),
            "give the server's role write access, or set GALVO_DATABASE_URL to the primary",
        ),
    });
    if let Some(server) = server {
        if !server.may_create_tables {
            let advice = "run GRANT CREATE ON SCHEMA public TO the role in GALVO_DATABASE_URL";
            findings.push(Finding::failed("rights", "the role cannot create tables", advice));
        }
        if server.encoding != "UTF8" {
            let message = format!("the database is encoded as {}", server.encoding);
            findings.push(Finding::failed("store", message, "create the database with ENCODING 'UTF8'"));
        }
        if i64::from(common.connections) >= i64::from(server.max_connections) {
            let message = format!(
                "up to {} connections are configured, and the database allows {} in total",
                common.connections, server.max_connections
            );
            findings.push(Finding::warning(
                "connections",
                message,
                "lower GALVO_DATABASE_CONNECTIONS, or raise max_connections of PostgreSQL",
            ));
        }
        findings.push(judge_clock(server.clock_ahead_ms));
    }
    findings.push(judge_migrations(migrations));
    findings
}

fn judge_migrations(migrations: &Migrations) -> Finding {
    match migrations {
        Migrations::NoneApplied(missing) => {
            let (count, first) = (missing.len(), missing.first().map(String::as_str).unwrap_or_default());
            Finding::warning(
                "migrations",
                format!("not migrated yet: {count} missing, the first is {first}"),
                "run `galvo migrate`, or start `galvo serve`, which does the same",
            )
        }
        Migrations::Missing(missing) if missing.is_empty() => Finding::ok("migrations", "all are applied"),
        Migrations::Missing(missing) => Finding::warning(
            "migrations",
            format!("{} missing, the first is {}", missing.len(), missing[0]),
            "make a backup, then run `galvo migrate` or `galvo serve`, which apply them",
        ),
        Migrations::Newer(newest) => Finding::warning(
            "migrations",
            format!("the schema is newer than this release, its latest migration is {newest}"),
            "upgrade this server to that release; both can run until then",
        ),
        Migrations::Mismatched(reason) => Finding::failed(
            "migrations",
            format!("they do not match this version: {reason}"),
            "the database was used by another version: run that version, or restore an earlier backup",
        ),
    }
}

fn judge_clock(ahead_ms: i64) -> Finding {
    let difference_ms = ahead_ms.abs();
    if difference_ms < SMALL_DIFFERENCE {
        return Finding::ok("clock", "the clocks of this machine and the database agree");
    }
    let (seconds, tenths) = (difference_ms / 1_000, difference_ms % 1_000 / 100);
    let direction = if ahead_ms > 0 { "ahead of" } else { "behind" };
    let message = format!("the database's clock is {seconds}.{tenths} s {direction} this machine's");
    let advice = "synchronize both machines with the same time servers";
    if difference_ms < LARGE_DIFFERENCE {
        Finding::warning("clock", message, advice)
    } else {
        Finding::failed("clock", message, advice)
    }
}

/// Returns the warning for a stopped retention job.
fn judge_retention(watch: &retention_watch::Model) -> Option<Finding> {
    let (hold, held_at) = (watch.hold?, watch.held_at?);
    let reason = match hold {
        Hold::Clock => {
            format!(
                ": the clock was at {}, far ahead of the newest reports, {}",
                format_time(held_at),
                format_time(watch.trusted_at)
            )
        }
        Hold::Amount => format!(
            " for some accounts: at {}, {} of their rows were due, far more than the usual {} of one; the log \
             names the accounts",
            format_time(held_at),
            watch.due_rows,
            watch.usual_rows
        ),
    };
    Some(Finding::warning(
        "retention",
        format!("deletion of old data is paused{reason}"),
        "correct the clock or the accounts' retention; if both are right, run `galvo retention confirm`",
    ))
}

fn format_time(time: Timestamp) -> String {
    time.0.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn clocks_are_told_apart_by_how_much_they_differ() {
        for (ahead_ms, verdict, message) in [
            (0, Verdict::Ok, "the clocks of this machine and the database agree"),
            (-999, Verdict::Ok, "the clocks of this machine and the database agree"),
            (2_500, Verdict::Warning, "the database's clock is 2.5 s ahead of this machine's"),
            (-61_000, Verdict::Failed, "the database's clock is 61.0 s behind this machine's"),
        ] {
            let finding = judge_clock(ahead_ms);
            assert_eq!((finding.verdict, finding.message.as_str()), (verdict, message));
        }
    }
}
