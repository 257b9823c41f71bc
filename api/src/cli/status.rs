//! The output of `galvo status`: the database that the command uses, its content, the server on this
//! machine, and the last runs of its jobs.

use std::{collections::BTreeMap, fmt::Write};

use chrono::{DateTime, Utc};
use entity::{Timestamp, retention_watch::Hold};
use serde_json::{Value, json};
use url::Url;

use super::{
    moment::format_time,
    store::{self, OpenError},
};
use crate::{
    clock::{Clock, SystemClock},
    config::{CommonConfig, StatusArgs},
    http_client::OutgoingClient,
    store::{InstallationTotals, Migrations, StoreError, SystemStore},
};

/// The maximum size of the server's metrics, in bytes. They grow with the numbers of routes and jobs.
const MAX_METRICS: usize = 8 << 20;

/// The metric with the time of a job's last successful run.
const LAST_SUCCESS: &str = "galvo_job_last_success_timestamp_seconds{name=\"";

/// The status of an installation.
struct Status {
    store: String,
    version: String,
    schema: String,
    /// `None` if the tables are not those of this release.
    content: Option<Content>,
    server: Server,
}

struct Content {
    totals: InstallationTotals,
    /// The reason why deletion is stopped, and its time.
    hold: Option<(Hold, Option<Timestamp>)>,
    retention_at: Option<Timestamp>,
}

struct Server {
    url: Url,
    readiness: Result<(), String>,
    /// The last successful run of each job on this server. An error if the metrics cannot be read.
    jobs: Result<BTreeMap<String, DateTime<Utc>>, String>,
}

/// Prints the status. Nothing is changed, missing migrations included.
pub(super) async fn print(args: &StatusArgs, common: &CommonConfig) -> Result<(), OpenError> {
    let url = &common.database;
    store::check_presence(url)?;
    let to_open_error = |error: StoreError| OpenError::Store(url.clone(), error);
    let system = SystemStore::connect(url, common.connections).await.map_err(to_open_error)?;
    let diagnostics = system.run_diagnostics().await.map_err(to_open_error)?;
    let now = SystemClock.timestamp();
    let is_current = match &diagnostics.migrations {
        Migrations::Missing(missing) => missing.is_empty(),
        Migrations::Newer(_) => true,
        Migrations::NoneApplied(_) | Migrations::Mismatched(_) => false,
    };
    let content =
        if is_current { Some(read_content(&system, now).await.map_err(to_open_error)?) } else { None };
    let status = Status {
        store: url.to_string(),
        version: diagnostics.version,
        schema: describe_schema(&diagnostics.migrations),
        content,
        server: query_server(args).await,
    };
    println!("{}", if args.json { status.json().to_string() } else { status.text(now.0) });
    Ok(())
}

async fn read_content(system: &SystemStore, now: Timestamp) -> Result<Content, StoreError> {
    let watch = system.retention_watch().await?;
    Ok(Content {
        totals: system.installation_totals(now).await?,
        hold: watch.as_ref().and_then(|watch| Some((watch.hold?, watch.held_at))),
        retention_at: watch.and_then(|watch| watch.completed_at),
    })
}

fn describe_schema(migrations: &Migrations) -> String {
    match migrations {
        Migrations::NoneApplied(_) => "no tables yet: `galvo migrate` or a server creates them".to_owned(),
        Migrations::Missing(missing) if missing.is_empty() => "up to date".to_owned(),
        Migrations::Missing(missing) => {
            format!("{} migrations are missing: `galvo migrate` or a server applies them", missing.len())
        }
        Migrations::Newer(newest) => format!("of a newer release ({newest})"),
        Migrations::Mismatched(reason) => format!("not of this release: {reason}"),
    }
}

async fn query_server(args: &StatusArgs) -> Server {
    let client = OutgoingClient::new();
    let url = args.server.base();
    let readiness = client.get(&args.server.readiness(), super::MAX_READINESS).await;
    let metrics = client.get(&args.metrics(), MAX_METRICS).await;
    Server {
        url,
        readiness: readiness.map(|_| ()).map_err(|error| error.to_string()),
        jobs: metrics
            .map(|text| parse_last_successes(&String::from_utf8_lossy(&text)))
            .map_err(|error| error.to_string()),
    }
}

/// Returns the last successful run of each job, from metrics in the format of Prometheus.
fn parse_last_successes(metrics: &str) -> BTreeMap<String, DateTime<Utc>> {
    metrics
        .lines()
        .filter_map(|line| {
            let (job, seconds) = line.strip_prefix(LAST_SUCCESS)?.split_once("\"} ")?;
            #[expect(clippy::cast_possible_truncation, reason = "the conversion saturates")]
            let milliseconds = (seconds.trim().parse::<f64>().ok()? * 1e3) as i64;
            // A job that has not succeeded yet has the time 0.
            let at = DateTime::from_timestamp_millis(milliseconds).filter(|_| milliseconds > 0)?;
            Some((job.to_owned(), at))
        })
        .collect()
}

impl Status {
    fn json(&self) -> Value {
        let content = self.content.as_ref().map(|content| {
            let InstallationTotals {
                accounts,
                users,
                valid_tokens,
                clusters,
                reporting_clusters,
                last_report_at,
                pending_deliveries,
            } = content.totals;
            json!({
                "accounts": accounts,
                "users": users,
                "validTokens": valid_tokens,
                "clusters": clusters,
                "reportingClusters": reporting_clusters,
                "lastReportAt": last_report_at.map(format_time),
                "pendingDeliveries": pending_deliveries,
                "retention": {
                    "lastRoundAt": content.retention_at.map(format_time),
                    "stoppedBy": content.hold.map(|(hold, _)| hold_name(hold)),
                    "stoppedAt": content.hold.and_then(|(_, at)| at).map(format_time),
                },
            })
        });
        let Server { url, readiness, jobs } = &self.server;
        let jobs = jobs.as_ref().ok().map(|jobs| {
            jobs.iter().map(|(job, at)| (job.clone(), format_time((*at).into()))).collect::<BTreeMap<_, _>>()
        });
        json!({
            "store": self.store,
            "databaseVersion": self.version,
            "schema": self.schema,
            "content": content,
            "server": { "url": url, "isReady": readiness.is_ok(), "problem": readiness.as_ref().err(), "jobs": jobs },
        })
    }

    fn text(&self, now: DateTime<Utc>) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            writeln!(text, "{name:<11}{value}").expect("writing to a string succeeds");
        };
        line("store", format!("{} (version {})", self.store, self.version));
        line("schema", self.schema.clone());
        if let Some(Content { totals, hold, retention_at }) = &self.content {
            line(
                "accounts",
                format!("{}, {} users, {} valid tokens", totals.accounts, totals.users, totals.valid_tokens),
            );
            let last_report = totals
                .last_report_at
                .map_or_else(|| "no report yet".to_owned(), |at| format!("last report {}", ago(at.0, now)));
            line(
                "clusters",
                format!("{}, {} report; {last_report}", totals.clusters, totals.reporting_clusters),
            );
            line("alerts", format!("{} messages to send", totals.pending_deliveries));
            let last_round = retention_at
                .map_or_else(|| "no round yet".to_owned(), |at| format!("last round {}", ago(at.0, now)));
            let hold_note = hold.map(|(hold, _)| {
                format!(
                    "; stopped, because the {} looks wrong: see `galvo retention confirm`",
                    hold_name(hold)
                )
            });
            line("retention", last_round + &hold_note.unwrap_or_default());
        }
        let Server { url, readiness, jobs } = &self.server;
        match readiness {
            Ok(()) => line("server", format!("ready at {url}")),
            Err(problem) => line("server", format!("not ready at {url}: {problem}")),
        }
        match jobs {
            Ok(jobs) => {
                for (job, at) in jobs {
                    line("job", format!("{job:<14} last success {}", ago(*at, now)));
                }
            }
            Err(problem) if readiness.is_ok() => line("jobs", format!("unknown: the metrics gave {problem}")),
            Err(_) => {}
        }
        text.truncate(text.trim_end().len());
        text
    }
}

fn hold_name(hold: Hold) -> &'static str {
    match hold {
        Hold::Clock => "clock",
        Hold::Amount => "amount",
    }
}

/// Returns the age of a time: `4 s ago`, `3 h ago`.
fn ago(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let seconds = (now - at).num_seconds().max(0);
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_runs_of_jobs_are_read_from_metrics() {
        let text = "# HELP galvo_job_runs Runs\n\
                    galvo_job_runs_total{name=\"usage\"} 3\n\
                    galvo_job_last_success_timestamp_seconds{name=\"usage\"} 1795176000.5\n\
                    galvo_job_last_success_timestamp_seconds{name=\"flags\"} 0.0\n\
                    galvo_job_last_success_timestamp_seconds{name=\"odd\"} NaN\n";
        let at = DateTime::from_timestamp_millis(1_795_176_000_500).expect("in range");
        assert_eq!(parse_last_successes(text), BTreeMap::from([("usage".to_owned(), at)]));
    }

    #[test]
    fn ages_have_one_unit() {
        let now = DateTime::from_timestamp(1_795_176_000, 0).expect("in range");
        let before = |seconds| ago(now - chrono::TimeDelta::seconds(seconds), now);
        assert_eq!(
            [0, 59, 60, 3_599, 3_600, 86_399, 86_400, -5].map(before),
            ["0 s ago", "59 s ago", "1 min ago", "59 min ago", "1 h ago", "23 h ago", "1 d ago", "0 s ago"]
        );
    }
}
