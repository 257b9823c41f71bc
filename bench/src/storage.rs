//! Storage that one cluster needs in a day.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _, SqliteConnection};

use crate::{
    client::Connection,
    database::{Database, Databases, Result, Store},
    ingest::now,
    results::Outcome,
    server::Server,
    traffic::{Cluster, Rates, USUAL},
};

/// The aim, in MB per day.
const AIM: f64 = 3.4;

/// The minimum duration for a verdict, in hours. Shorter runs say too little about a day.
const MIN_HOURS: f64 = 24.0;

/// The lifetime of a warm-up cluster, which is not counted, in hours. After it each table is past its
/// first pages and has its free space map and visibility map, which PostgreSQL creates several pages
/// long at once.
const WARM_UP_HOURS: f64 = 24.0;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Lifetime of the cluster, in hours. The results are scaled to a day.
    #[arg(long, default_value_t = 24.0)]
    hours: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also sample each of the cluster's workers.
    #[arg(long)]
    worker_samples: bool,
    /// Write the tables as Markdown to this file.
    #[arg(long)]
    markdown: Option<std::path::PathBuf>,
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Store::Postgres, Store::Sqlite])]
    stores: Vec<Store>,
}

/// The bytes and rows of tables.
type Sizes = BTreeMap<String, (i64, i64)>;

pub(crate) async fn run(options: &Options) -> Result<()> {
    let rates = Rates { worker_samples: options.worker_samples, ..USUAL };
    let mut tables: BTreeMap<String, Vec<(Store, f64, f64)>> = BTreeMap::new();
    let mut sums = Vec::new();
    // After a few hours, most pages are only partly filled.
    let has_verdict = !options.worker_samples && options.hours >= MIN_HOURS;
    for store in &options.stores {
        let databases = Databases::prepare(*store).await?;
        let database = databases.create_copy().await?;
        // The end of the last complete day, because hourly, daily and weekly rows begin with it.
        let end = now() - now().rem_euclid(milliseconds(24.0));
        // A warm-up cluster fills the first pages of all tables and indexes, which are needed only once.
        run_cluster(options, &databases, &database, (1, WARM_UP_HOURS, rates), end).await?;
        let before = StorageSizes::measure(&database).await?;
        let reports = run_cluster(options, &databases, &database, (0, options.hours, rates), end).await?;
        let after = StorageSizes::measure(&database).await?;
        database.drop().await?;
        let growth = StorageSizes {
            tables: difference(&after.tables, &before.tables),
            file: after.file.zip(before.file).map(|(after, before)| {
                let [unpacked, packed] = [0, 1].map(|i| after[i] - before[1]);
                [unpacked, packed]
            }),
        };
        if growth.tables.is_empty() {
            return Err("no table has grown".into());
        }
        let per_day = 24.0 / options.hours;
        let mut total = 0.0;
        for (table, (bytes, rows)) in &growth.tables {
            let megabytes = float(*bytes) / 1e6 * per_day;
            total += megabytes;
            tables.entry(table.clone()).or_default().push((*store, megabytes, float(*rows) * per_day));
        }
        let file_growth = growth.file.map_or(String::new(), |[unpacked, packed]| {
            let (unpacked, packed) = (float(unpacked) / 1e6 * per_day, float(packed) / 1e6 * per_day);
            format!("; the file grew by {unpacked:.2} MB, by {packed:.2} MB after VACUUM")
        });
        let samples = if options.worker_samples { ", each worker sampled, too" } else { "" };
        Outcome {
            benchmark: format!("storage of a cluster's day, {}{samples}", store.name()),
            figure: format!("{total:.2} MB in tables and indexes ({reports} reports{file_growth})"),
            reference: format!("{AIM} MB estimated for packed rows"),
            ratio: Some(total / AIM),
            aim: if has_verdict { format!("<= {AIM} MB") } else { String::new() },
            is_met: has_verdict.then_some(total <= AIM),
        }
        .publish();
        sums.push((*store, total));
    }
    let text = format_markdown(options, &tables, &sums)?;
    println!("{text}");
    if let Some(path) = &options.markdown {
        fs::write(path, text)?;
    }
    Ok(())
}

struct StorageSizes {
    tables: Sizes,
    /// The length of the SQLite file before and after VACUUM, in bytes.
    file: Option<[i64; 2]>,
}

impl StorageSizes {
    async fn measure(database: &Database) -> Result<Self> {
        match &database.path {
            None => Ok(Self { tables: postgres_sizes(database).await?, file: None }),
            Some(path) => {
                let (tables, file) = sqlite_sizes(database, path).await?;
                Ok(Self { tables, file: Some(file) })
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a few hours")]
fn milliseconds(hours: f64) -> i64 {
    (3.6e6 * hours) as i64
}

/// Runs a cluster with this number until `end`, in epoch milliseconds. Returns the number of its
/// reports.
async fn run_cluster(
    options: &Options,
    databases: &Databases,
    database: &Database,
    (number, hours, rates): (usize, f64, Rates),
    end: i64,
) -> Result<usize> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hours")]
    let (reports, per_hour) =
        ((3600.0 * hours / rates.interval_seconds) as usize, (3600.0 / rates.interval_seconds) as usize);
    let server = Server::start(&database.url, 4).await?;
    let mut cluster = Cluster::new(options.seed, number, end - milliseconds(hours), rates, false);
    let mut connection = Connection::open(server.address, &databases.token).await?;
    for report in 1..=reports {
        connection.send_report(&cluster.next_report(options.seed).body).await?;
        // The simulated day takes less than a minute, in which autovacuum would not run.
        if report % per_hour == 0 && database.path.is_none() {
            let mut maintenance = PgConnection::connect(&database.url).await?;
            maintenance.execute("VACUUM").await?;
        }
    }
    server.stop().await?;
    Ok(reports)
}

/// Returns the sizes with indexes, TOAST and free space within pages. Partitions count for their table.
async fn postgres_sizes(database: &Database) -> Result<Sizes> {
    let mut connection = PgConnection::connect(&database.url).await?;
    connection.execute("VACUUM ANALYZE").await?;
    // A table without partitions may have no partition tree.
    let select = "SELECT c.relname::text, coalesce(\
                    (SELECT sum(pg_total_relation_size(p.relid))::bigint FROM pg_partition_tree(c.oid) p), \
                    pg_total_relation_size(c.oid)) \
                  FROM pg_class c \
                  WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace";
    let mut sizes = Sizes::new();
    for row in sqlx::query(select).fetch_all(&mut connection).await? {
        let (table, bytes): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        let count = format!("SELECT count(*) FROM {table}");
        let rows = sqlx::query(AssertSqlSafe(count)).fetch_one(&mut connection).await?.try_get(0)?;
        sizes.insert(table, (bytes, rows));
    }
    connection.close().await?;
    Ok(sizes)
}

/// Returns the sizes of tables with their indexes after VACUUM, and the length of the file before and
/// after.
async fn sqlite_sizes(database: &Database, path: &Path) -> Result<(Sizes, [i64; 2])> {
    let length = || -> Result<i64> { Ok(i64::try_from(fs::metadata(path)?.len())?) };
    let mut connection = SqliteConnection::connect(&database.url).await?;
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
    let before = length()?;
    connection.execute("VACUUM").await?;
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").await?;
    let after = length()?;
    let select = "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_master m ON m.name = s.name \
                  GROUP BY m.tbl_name";
    let mut sizes = Sizes::new();
    for row in sqlx::query(select).fetch_all(&mut connection).await? {
        let (table, bytes): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        let count = format!("SELECT count(*) FROM {table}");
        let rows = sqlx::query(AssertSqlSafe(count)).fetch_one(&mut connection).await?.try_get(0)?;
        sizes.insert(table, (bytes, rows));
    }
    connection.close().await?;
    Ok((sizes, [before, after]))
}

fn difference(after: &Sizes, before: &Sizes) -> Sizes {
    let subtract = |(table, (bytes, rows)): (&String, &(i64, i64))| {
        let (previous_bytes, previous_rows) = before.get(table).copied().unwrap_or_default();
        (table.clone(), (bytes - previous_bytes, rows - previous_rows))
    };
    after.iter().map(subtract).filter(|(_, growth)| *growth != (0, 0)).collect()
}

fn format_markdown(
    options: &Options,
    tables: &BTreeMap<String, Vec<(Store, f64, f64)>>,
    sums: &[(Store, f64)],
) -> Result<String> {
    let mut text = String::from("| table | rows a day |");
    for store in &options.stores {
        write!(text, " MB, {} |", store.name())?;
    }
    writeln!(text, "\n|---|---:|{}", "---:|".repeat(options.stores.len()))?;
    let mut sorted: Vec<_> = tables.iter().collect();
    sorted.sort_by(|a, b| b.1[0].1.total_cmp(&a.1[0].1));
    for (table, results) in sorted {
        write!(text, "| {table} | {:.0} |", results[0].2)?;
        for store in &options.stores {
            let store_result = results.iter().find(|(result_store, ..)| result_store == store);
            match store_result {
                Some((_, megabytes, _)) => write!(text, " {megabytes:.3} |")?,
                None => write!(text, " – |")?,
            }
        }
        writeln!(text)?;
    }
    write!(text, "| **sum** | |")?;
    for (_, total) in sums {
        write!(text, " **{total:.2}** |")?;
    }
    writeln!(text)?;
    Ok(text)
}

fn float(value: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let float = value as f64;
    float
}
