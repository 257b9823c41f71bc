//! The statement alone on SQLite: prepared, stepped and written as JSON by this process.

use std::{
    fmt::Write as _,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, Row, Statement, params_from_iter, types};
use uuid::Uuid;

use crate::{
    database::Result,
    operations::{
        measurement::{Measurement, ProcessorClock},
        queries::{Bind, Operation},
    },
};

/// The number of threads, each with a connection of its own.
pub(super) const THREADS: usize = 2;

/// Runs the statement in all threads for this many seconds.
pub(super) fn measure(path: &Path, operation: &Operation, seconds: f64) -> Result<Measurement> {
    let clock = ProcessorClock::start(&[]);
    let deadline = Instant::now() + Duration::from_secs_f64(seconds);
    let completed = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|worker| scope.spawn(move || run(path, operation, 17 * worker, deadline)))
            .collect();
        let mut completed = 0;
        for thread in threads {
            completed += thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok::<usize, Box<dyn std::error::Error + Send + Sync>>(completed)
    })?;
    Ok(clock.stop(completed))
}

/// Runs the statement until the deadline, from the request with index `first_index` on. Returns the number of
/// operations.
fn run(path: &Path, operation: &Operation, first_index: usize, deadline: Instant) -> Result<usize> {
    let connection = open(path)?;
    let mut statement = connection.prepare(&operation.sqlite_statement)?;
    let names = column_names(&statement);
    let (mut completed, mut json) = (0, String::new());
    while Instant::now() < deadline {
        write_rows(&mut statement, operation, first_index + completed, &names, &mut json)?;
        std::hint::black_box(&json);
        completed += 1;
    }
    Ok(completed)
}

/// Returns the number of rows of the statement for each request.
pub(super) fn count_rows(path: &Path, operation: &Operation) -> Result<Vec<usize>> {
    let connection = open(path)?;
    let mut statement = connection.prepare(&operation.sqlite_statement)?;
    let names = column_names(&statement);
    let mut json = String::new();
    (0..operation.binds.len())
        .map(|index| write_rows(&mut statement, operation, index, &names, &mut json))
        .collect()
}

/// Opens the database for reading, with the options of the server.
fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.execute_batch(
        "PRAGMA cache_size = -65536; PRAGMA mmap_size = 268435456; PRAGMA temp_store = memory",
    )?;
    Ok(connection)
}

/// Returns the names of the columns as they are written: with quotation marks and a colon.
fn column_names(statement: &Statement<'_>) -> Vec<String> {
    statement.column_names().into_iter().map(|name| format!("\"{name}\":")).collect()
}

/// Runs the statement, and writes its rows as JSON. Returns their number.
fn write_rows(
    statement: &mut Statement<'_>,
    operation: &Operation,
    index: usize,
    names: &[String],
    json: &mut String,
) -> Result<usize> {
    let binds = operation.binds[index % operation.binds.len()].iter().map(|bind| match bind {
        Bind::Uuid(value) => types::Value::Blob(value.as_bytes().to_vec()),
        Bind::Int(value) => types::Value::Integer(*value),
    });
    let mut rows = statement.query(params_from_iter(binds))?;
    let mut number = 0;
    json.clear();
    while let Some(row) = rows.next()? {
        json.push(if number == 0 { '[' } else { ',' });
        write_row(row, names, json)?;
        number += 1;
    }
    json.push(']');
    Ok(number)
}

fn write_row(row: &Row<'_>, names: &[String], json: &mut String) -> Result<()> {
    for (i, name) in names.iter().enumerate() {
        json.push(if i == 0 { '{' } else { ',' });
        json.push_str(name);
        match row.get_ref(i)? {
            types::ValueRef::Null => json.push_str("null"),
            types::ValueRef::Integer(value) => write!(json, "{value}")?,
            types::ValueRef::Real(value) => write!(json, "{value}")?,
            types::ValueRef::Text(text) => json.push_str(&serde_json::to_string(std::str::from_utf8(text)?)?),
            types::ValueRef::Blob(bytes) => write!(json, "\"{}\"", Uuid::from_slice(bytes)?)?,
        }
    }
    json.push('}');
    Ok(())
}
