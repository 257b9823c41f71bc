//! The store: whether it is there, may be written, and is as this version needs it.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use super::Finding;
use crate::{
    config::CommonConfig,
    error::Chain,
    store::{Examined, Migrations, StoreUrl, SystemStore},
};

/// The oldest PostgreSQL that will do, as it numbers itself.
const OLDEST_POSTGRES: i32 = 130_000;

/// Clocks may differ so much, in milliseconds, before somebody should look why.
const SMALL_DIFFERENCE: i64 = 1_000;

/// Clocks that differ by more make times meaningless.
const LARGE_DIFFERENCE: i64 = 60_000;

/// Adds what is found to `findings`. Returns the store, if it could be opened.
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
    match store.examine().await {
        Ok(examined) => findings.extend(judge(common, &examined)),
        Err(error) => {
            let message = format!("{}: {}", common.database, Chain(&error));
            findings.push(Finding::failed("store", message, "see what the database's own log says of it"));
        }
    }
    Some(store)
}

/// Whether there is a file that can be opened.
fn examine_file(path: &Path, create: bool, findings: &mut Vec<Finding>) -> bool {
    match fs::metadata(path) {
        Ok(file) => {
            if file.mode() & 0o077 != 0 {
                let message = format!("others than its owner may read {}", path.display());
                findings.push(Finding::warning("store", message, format!("chmod 600 {}", path.display())));
            }
            true
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && create => {
            let message = format!("there is no {} yet", path.display());
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            findings.push(if directory.is_none_or(Path::is_dir) {
                Finding::warning(
                    "store",
                    message,
                    "galvo serve makes it; if there should be one, correct GALVO_DATABASE_URL",
                )
            } else {
                Finding::failed("store", message, "make the directory it is to lie in")
            });
            false
        }
        Err(error) => {
            let message = format!("{} cannot be opened: {error}", path.display());
            findings.push(Finding::failed(
                "store",
                message,
                "correct GALVO_DATABASE_URL, or who may read the file",
            ));
            false
        }
    }
}

fn judge(common: &CommonConfig, examined: &Examined) -> Vec<Finding> {
    let Examined { version, writable, migrations, server } = examined;
    let mut findings = Vec::new();
    let message = format!("{}, version {version}", common.database);
    let too_old = server.as_ref().is_some_and(|server| server.version < OLDEST_POSTGRES);
    findings.push(if too_old {
        Finding::failed("store", message, "PostgreSQL 13 or newer is needed")
    } else {
        Finding::ok("store", message)
    });
    findings.push(match writable {
        Ok(()) => Finding::ok("rights", "the store can be written"),
        Err(reason) => Finding::failed(
            "rights",
            format!("the store cannot be written: {reason}"),
            "give the user that runs the server the right to write, or name the database that is not a replica",
        ),
    });
    if let Some(server) = server {
        if !server.may_create {
            let advice = "GRANT CREATE ON SCHEMA public TO the role that GALVO_DATABASE_URL names";
            findings.push(Finding::failed("rights", "the role may not make tables", advice));
        }
        if server.encoding != "UTF8" {
            let message = format!("the database is encoded as {}", server.encoding);
            findings.push(Finding::failed("store", message, "make it with ENCODING 'UTF8'"));
        }
        if i64::from(common.connections) >= i64::from(server.max_connections) {
            let message = format!(
                "{} connections are asked for, and the database has {} for everybody",
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
        Migrations::Missing(missing) if missing.is_empty() => {
            Finding::ok("migrations", "all of them are applied")
        }
        Migrations::Missing(missing) => Finding::warning(
            "migrations",
            format!("{} are missing, the first is {}", missing.len(), missing[0]),
            "make a backup; galvo serve and galvo migrate apply them",
        ),
        Migrations::Newer(newest) => Finding::warning(
            "migrations",
            format!("the schema is that of a newer release, its newest step is {newest}"),
            "run that release: this one serves beside it until it is replaced",
        ),
        Migrations::Others(reason) => Finding::failed(
            "migrations",
            format!("they are not those of this version: {reason}"),
            "the store was used by another version: run that one, or restore the backup that was made before",
        ),
    }
}

fn judge_clock(ahead_ms: i64) -> Finding {
    let apart = ahead_ms.abs();
    if apart < SMALL_DIFFERENCE {
        return Finding::ok("clock", "here and in the database it is the same time");
    }
    let (seconds, tenths) = (apart / 1_000, apart % 1_000 / 100);
    let where_to = if ahead_ms > 0 { "ahead of" } else { "behind" };
    let message = format!("the database's clock is {seconds}.{tenths} s {where_to} the one here");
    let advice = "let both machines follow the same time servers";
    if apart < LARGE_DIFFERENCE {
        Finding::warning("clock", message, advice)
    } else {
        Finding::failed("clock", message, advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn clocks_are_told_apart_by_how_much_they_differ() {
        for (ahead_ms, verdict, message) in [
            (0, Verdict::Ok, "here and in the database it is the same time"),
            (-999, Verdict::Ok, "here and in the database it is the same time"),
            (2_500, Verdict::Warning, "the database's clock is 2.5 s ahead of the one here"),
            (-61_000, Verdict::Failed, "the database's clock is 61.0 s behind the one here"),
        ] {
            let finding = judge_clock(ahead_ms);
            assert_eq!((finding.verdict, finding.message.as_str()), (verdict, message));
        }
    }
}
