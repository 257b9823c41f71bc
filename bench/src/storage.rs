//! Storage: how large one cluster makes a store in one day.

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

/// Megabytes a day.
const AIM: f64 = 3.4;

/// A shorter life tells too little of a day.
const LEAST_HOURS: f64 = 24.0;

/// Of a cluster that does not count: so much that each table is past its first pages and has its maps of free and of
/// visible pages, which PostgreSQL makes a few pages long at once.
const WARM_UP_HOURS: f64 = 24.0;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long the cluster lives; the results are those of a day in any case.
    #[arg(long, default_value_t = 24.0)]
    hours: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sample each of the cluster's workers, too.
    #[arg(long)]
    worker_samples: bool,
    /// Write the tables as Markdown to this file.
    #[arg(long)]
    markdown: Option<std::path::PathBuf>,
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Store::Postgres, Store::Sqlite])]
    stores: Vec<Store>,
}

/// Bytes and rows of tables.
type Sizes = BTreeMap<String, (i64, i64)>;

pub(crate) async fn run(options: &Options) -> Result<()> {
    let rates = Rates { worker_samples: options.worker_samples, ..USUAL };
    let mut tables: BTreeMap<String, Vec<(Store, f64, f64)>> = BTreeMap::new();
    let mut sums = Vec::new();
    // What was measured for a few hours is mostly pages that have only begun to fill.
    let judged = !options.worker_samples && options.hours >= LEAST_HOURS;
    for store in &options.stores {
        let databases = Databases::prepare(*store).await?;
        let database = databases.make().await?;
        // The last day that is over: what is kept by the hour, the day and the week begins with it.
        let end = now() - now().rem_euclid(milliseconds(24.0));
        // The first pages of all tables and indexes are another cluster's: they are needed once.
        live(options, &databases, &database, (1, WARM_UP_HOURS, rates), end).await?;
        let before = Measured::of(&database).await?;
        let reports = live(options, &databases, &database, (0, options.hours, rates), end).await?;
        let after = Measured::of(&database).await?;
        database.drop().await?;
        let measured = Measured {
            tables: difference(&after.tables, &before.tables),
            file: after.file.zip(before.file).map(|(after, before)| {
                let [unpacked, packed] = [0, 1].map(|i| after[i] - before[1]);
                [unpacked, packed]
            }),
        };
        if measured.tables.is_empty() {
            return Err("no table has grown".into());
        }
        let per_day = 24.0 / options.hours;
        let mut total = 0.0;
        for (table, (bytes, rows)) in &measured.tables {
            let megabytes = float(*bytes) / 1e6 * per_day;
            total += megabytes;
            tables.entry(table.clone()).or_default().push((*store, megabytes, float(*rows) * per_day));
        }
        let whole = measured.file.map_or(String::new(), |[unpacked, packed]| {
            let (unpacked, packed) = (float(unpacked) / 1e6 * per_day, float(packed) / 1e6 * per_day);
            format!("; the file grew by {unpacked:.2} MB, by {packed:.2} MB after VACUUM")
        });
        let samples = if options.worker_samples { ", each worker sampled, too" } else { "" };
        Outcome {
            benchmark: format!("storage of a cluster's day, {}{samples}", store.name()),
            figure: format!("{total:.2} MB in tables and indexes ({reports} reports{whole})"),
            reference: format!("{AIM} MB estimated for packed rows"),
            ratio: Some(total / AIM),
            aim: if judged { format!("<= {AIM} MB") } else { String::new() },
            held: judged.then_some(total <= AIM),
        }
        .tell();
        sums.push((*store, total));
    }
    let text = markdown(options, &tables, &sums)?;
    println!("{text}");
    if let Some(path) = &options.markdown {
        fs::write(path, text)?;
    }
    Ok(())
}

struct Measured {
    tables: Sizes,
    /// Length of a file as it was left, and once it was made as small as possible.
    file: Option<[i64; 2]>,
}

impl Measured {
    async fn of(database: &Database) -> Result<Self> {
        match &database.path {
            None => Ok(Self { tables: postgres_sizes(database).await?, file: None }),
            Some(path) => {
                let (tables, file) = sqlite_sizes(database, path).await?;
                Ok(Self { tables, file: Some(file) })
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "some hours")]
fn milliseconds(hours: f64) -> i64 {
    (3.6e6 * hours) as i64
}

/// Lets a cluster of this number live until `end`, in epoch milliseconds; returns how many reports that were.
async fn live(
    options: &Options,
    databases: &Databases,
    database: &Database,
    (number, hours, rates): (usize, f64, Rates),
    end: i64,
) -> Result<usize> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hours")]
    let (reports, per_hour) =
        ((3600.0 * hours / rates.interval_seconds) as usize, (3600.0 / rates.interval_seconds) as usize);
    let server = Server::start(&database.url, 4).await?;
    let mut cluster = Cluster::new(options.seed, number, end - milliseconds(hours), rates, false);
    let mut connection = Connection::open(server.address, &databases.token).await?;
    for report in 1..=reports {
        connection.report(&cluster.next_report(options.seed).body).await?;
        // In a day that is over within a minute, PostgreSQL would not come round to it by itself.
        if report % per_hour == 0 && database.path.is_none() {
            let mut maintenance = PgConnection::connect(&database.url).await?;
            maintenance.execute("VACUUM").await?;
        }
    }
    server.stop().await?;
    Ok(reports)
}

/// With indexes, TOAST and what is free within pages; of partitioned tables, all partitions together.
async fn postgres_sizes(database: &Database) -> Result<Sizes> {
    let mut connection = PgConnection::connect(&database.url).await?;
    connection.execute("VACUUM ANALYZE").await?;
    // A table that is not partitioned may have no tree.
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

/// Tables with their indexes after VACUUM, and the file before and after.
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
        let (known_bytes, known_rows) = before.get(table).copied().unwrap_or_default();
        (table.clone(), (bytes - known_bytes, rows - known_rows))
    };
    after.iter().map(subtract).filter(|(_, growth)| *growth != (0, 0)).collect()
}

fn markdown(
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
    for (table, measured) in sorted {
        write!(text, "| {table} | {:.0} |", measured[0].2)?;
        for store in &options.stores {
            let found = measured.iter().find(|(of, ..)| of == store);
            match found {
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
