//! The rows that the server writes, written by hand-written SQL: the performance of the database itself.
//!
//! A report lists the rows it touches. Their values are read from a database that a server has filled. A
//! row that is written several times carries the sequence number of the respective report.

mod postgres;
mod sqlite;

use std::collections::HashMap;

use uuid::Uuid;

use crate::{
    database::{Database, Result, Store},
    traffic::{Cluster, Report},
};

/// A table and the key of its rows within a cluster, as in [`crate::traffic::Touched`].
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) key: &'static [&'static str],
    /// The treatment of an existing row.
    pub(crate) conflict: Conflict,
    /// True if the rows belong to a cluster, false if they belong to the account.
    pub(crate) belongs_to_cluster: bool,
}

/// The treatment of an existing row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// The row with the higher sequence number is kept.
    Newest,
    /// The existing row is kept.
    First,
    /// The new row replaces it.
    Last,
}

const fn table(name: &'static str, key: &'static [&'static str], conflict: Conflict) -> Table {
    Table { name, key, conflict, belongs_to_cluster: true }
}

/// All tables that reports write to, parents before children.
pub(crate) const TABLES: [Table; 19] = [
    table("clusters", &[], Conflict::Newest),
    table("environments", &["id"], Conflict::First),
    table("workers", &["id"], Conflict::Newest),
    table("clients", &["id"], Conflict::Newest),
    table("thread_changes", &["changed_at"], Conflict::First),
    Table { belongs_to_cluster: false, ..table("code_snippets", &["hash"], Conflict::First) },
    table("spans", &["id"], Conflict::Newest),
    table("fine_metrics", &["span_id"], Conflict::Newest),
    table("task_groups", &["id"], Conflict::Newest),
    table("computations", &["id"], Conflict::Newest),
    table("computation_task_groups", &["computation_id", "task_group_id"], Conflict::First),
    table("error_occurrences", &["id"], Conflict::First),
    table("cluster_sample_chunks", &["started_at"], Conflict::Last),
    table("worker_sample_chunks", &["worker_id", "started_at"], Conflict::Last),
    table("events", &["id"], Conflict::First),
    table("log_lines", &["id"], Conflict::First),
    table("profiles", &["id"], Conflict::First),
    table("usage_hours", &["hour"], Conflict::Newest),
    table("function_usage_hours", &["hour", "prefix"], Conflict::Newest),
];

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(String),
    Uuid(Uuid),
    Blob(Vec<u8>),
}

impl Value {
    fn as_key(&self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Text(text) => text.clone(),
            Self::Uuid(id) => id.to_string(),
            // SQLite stores UUIDs as blobs.
            Self::Blob(bytes) => Uuid::from_slice(bytes).map(|id| id.to_string()).unwrap_or_default(),
            _ => String::new(),
        }
    }
}

/// All rows of a table after the server has written them.
pub(crate) struct Content {
    pub(crate) table: &'static Table,
    pub(crate) columns: Vec<Column>,
    /// The columns of the primary key.
    pub(crate) primary_key: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// A column and its database type.
#[derive(Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) sql_type: String,
}

impl Content {
    fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Returns the positions of the table's rows by cluster and key.
    fn positions_by_key(&self) -> HashMap<(i64, String), usize> {
        let cluster = self.position(if self.table.name == "clusters" { "id" } else { "cluster_id" });
        let key: Vec<usize> = self.table.key.iter().filter_map(|name| self.position(name)).collect();
        let identify = |row: &Vec<Value>| {
            let cluster = match cluster.filter(|_| self.table.belongs_to_cluster).map(|i| &row[i]) {
                Some(Value::Int(id)) => *id,
                _ => 0,
            };
            (cluster, key.iter().map(|i| row[*i].as_key()).collect::<Vec<_>>().join("/"))
        };
        self.rows.iter().enumerate().map(|(i, row)| (identify(row), i)).collect()
    }
}

/// The rows of one report, by table.
pub(crate) struct Batch {
    pub(crate) cluster: usize,
    pub(crate) inserts: Vec<TableRows>,
}

/// Rows of one table. `content` is the table's position in the contents.
pub(crate) struct TableRows {
    pub(crate) content: usize,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Batch {
    pub(crate) fn rows(&self) -> usize {
        self.inserts.iter().map(|insert| insert.rows.len()).sum()
    }
}

/// The statements and rows to write to an empty database.
pub(crate) struct Reference {
    contents: Vec<Content>,
    pub(crate) batches: Vec<Batch>,
}

impl Reference {
    /// Reads the rows from a database to which a server has written these reports.
    pub(crate) async fn prepare(
        store: Store,
        filled: &Database,
        seed: u64,
        reports: &[Report],
    ) -> Result<Self> {
        let contents = match store {
            Store::Postgres => postgres::read(&filled.url).await?,
            Store::Sqlite => sqlite::read(&filled.url).await?,
        };
        let clusters = &contents[0];
        let (id, scheduler) = (clusters.position("id"), clusters.position("scheduler_id"));
        let (id, scheduler) = id.zip(scheduler).ok_or("the table of clusters has other columns")?;
        let numbers: HashMap<String, i64> = clusters
            .rows
            .iter()
            .filter_map(|row| match &row[id] {
                Value::Int(number) => Some((row[scheduler].as_key(), *number)),
                _ => None,
            })
            .collect();
        let positions: Vec<_> = contents.iter().map(Content::positions_by_key).collect();
        let content_indexes: HashMap<&str, usize> =
            contents.iter().enumerate().map(|(i, content)| (content.table.name, i)).collect();
        let batch = |report: &Report| {
            let cluster =
                numbers.get(&Cluster::scheduler_id(seed, report.cluster)).copied().unwrap_or_default();
            let mut rows_by_table: Vec<Vec<Vec<Value>>> = vec![Vec::new(); contents.len()];
            for touched in &report.touched {
                let Some(index) = content_indexes.get(touched.table).copied() else { continue };
                let content = &contents[index];
                let owner = if content.table.belongs_to_cluster { cluster } else { 0 };
                // Rows that the server does not store are omitted.
                let Some(row) = positions[index].get(&(owner, touched.key.clone())) else { continue };
                rows_by_table[index].push(content.row_at(*row, report));
            }
            let non_empty = rows_by_table.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
            let inserts = non_empty.map(|(content, rows)| TableRows { content, rows }).collect();
            Batch { cluster: report.cluster, inserts }
        };
        let batches = reports.iter().map(batch).collect();
        Ok(Self { contents, batches })
    }

    /// Writes all batches, one transaction each, those of a cluster in order. Returns the elapsed
    /// seconds.
    pub(crate) async fn write(&self, store: Store, empty: &Database, connections: u32) -> Result<f64> {
        match store {
            Store::Postgres => postgres::write(self, &empty.url, connections as usize).await,
            Store::Sqlite => sqlite::write(self, &empty.url).await,
        }
    }
}

impl Content {
    /// Returns the row as this report wrote it.
    fn row_at(&self, row: usize, report: &Report) -> Vec<Value> {
        let mut row = self.rows[row].clone();
        if let Some(sequence) = self.position("sequence") {
            row[sequence] = Value::Int(report.sequence);
        }
        // A chunk of samples grows with each report.
        if self.table.conflict == Conflict::Last
            && let Some(Value::Blob(data)) = self.position("data").map(|data| &mut row[data])
        {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                clippy::cast_sign_loss,
                reason = "a share of a small length"
            )]
            data.truncate((data.len() as f64 * report.chunk_share) as usize + 1);
        }
        row
    }
}
