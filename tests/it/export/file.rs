//! Exports as clients read them, and as the routes' description documents them.

use std::io::Cursor;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, ListArray, RecordBatch,
    StringArray, TimestampMillisecondArray, cast::AsArray,
};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use chrono::{DateTime, NaiveDate};
use harness::Member;
use reqwest::{Method, Response, StatusCode, header};
use serde_json::{Value, json};

pub(super) const ARROW: &str = "application/vnd.apache.arrow.stream";
pub(super) const CSV: &str = "text/csv";

/// An export, as the routes' description documents it.
pub(super) struct Export {
    pub(super) path: String,
    pub(super) columns: Vec<Column>,
}

/// A column of an export.
#[derive(Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) nullable: bool,
    pub(super) description: String,
}

/// All documented exports.
pub(super) fn exports() -> Vec<Export> {
    let openapi = serde_json::to_value(galvo::http::openapi()).unwrap();
    let paths = openapi["paths"].as_object().unwrap().iter();
    let exports = paths.filter(|(path, _)| path.starts_with("/api/v1/export/")).map(|(path, methods)| {
        let columns = methods["get"]["x-columns"].as_array().unwrap().iter().map(|column| {
            let text = |name: &str| column[name].as_str().unwrap().to_owned();
            Column {
                name: text("name"),
                kind: text("type"),
                nullable: column["nullable"].as_bool().unwrap(),
                description: text("description"),
            }
        });
        Export { path: path.clone(), columns: columns.collect() }
    });
    let exports: Vec<_> = exports.collect();
    assert!(exports.len() > 30, "{}", exports.len());
    exports
}

impl Export {
    /// Its name in the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap()
    }

    /// The path segment of the list's owner, such as `clusters`; `None` for the account.
    pub(super) fn of(&self) -> Option<&str> {
        self.path.strip_prefix("/api/v1/export/").unwrap().split_once("/{id}/").map(|(of, _)| of)
    }
}

/// Requests an export.
pub(super) async fn begin(
    member: &Member,
    path: &str,
    parameters: &[(&str, String)],
    accept: &str,
) -> Response {
    let request = member.request(Method::GET, path).query(parameters).header(header::ACCEPT, accept);
    request.send().await.unwrap()
}

/// Reads a whole export as Arrow: its schema and batches.
pub(super) async fn arrow(
    member: &Member,
    path: &str,
    parameters: &[(&str, String)],
) -> (SchemaRef, Vec<RecordBatch>) {
    let response = begin(member, path, parameters, ARROW).await;
    let status = response.status();
    let content_type = response.headers()[header::CONTENT_TYPE].clone();
    let bytes = response.bytes().await.unwrap();
    assert_eq!(status, StatusCode::OK, "{path}: {}", String::from_utf8_lossy(&bytes));
    assert_eq!(content_type, ARROW);
    let reader = StreamReader::try_new(Cursor::new(bytes), None).unwrap();
    let schema = reader.schema();
    (schema, reader.map(Result::unwrap).collect())
}

/// Reads a whole export as CSV: its column names and rows.
pub(super) async fn csv(
    member: &Member,
    path: &str,
    parameters: &[(&str, String)],
) -> (Vec<String>, Vec<Vec<String>>) {
    let response = begin(member, path, parameters, CSV).await;
    let status = response.status();
    let content_type = response.headers()[header::CONTENT_TYPE].clone();
    let bytes = response.bytes().await.unwrap();
    assert_eq!(status, StatusCode::OK, "{path}: {}", String::from_utf8_lossy(&bytes));
    assert_eq!(content_type, "text/csv; charset=utf-8; header=present");
    assert!(bytes.ends_with(b"\r\n"), "lines end as RFC 4180 requires");
    let mut reader = ::csv::Reader::from_reader(Cursor::new(bytes));
    let texts = |record: &::csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
    let names = texts(reader.headers().unwrap());
    (names, reader.records().map(|record| texts(&record.unwrap())).collect())
}

/// The rows of batches, each value in the form of [`of_answer`].
pub(super) fn rows(batches: &[RecordBatch], columns: &[Column]) -> Vec<Vec<Value>> {
    let rows = batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(|row| {
            let cells = batch.columns().iter().zip(columns);
            cells.map(|(array, column)| cell(array, row, &column.kind)).collect()
        })
    });
    rows.collect()
}

fn cell(array: &ArrayRef, row: usize, kind: &str) -> Value {
    fn of<T: Clone + 'static>(array: &ArrayRef) -> T {
        array.as_any().downcast_ref::<T>().unwrap().clone()
    }
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Utf8 if kind == "JSON" => {
            serde_json::from_str(of::<StringArray>(array).value(row)).unwrap()
        }
        DataType::Utf8 => of::<StringArray>(array).value(row).into(),
        DataType::Int64 => of::<Int64Array>(array).value(row).into(),
        DataType::Float64 => of::<Float64Array>(array).value(row).into(),
        DataType::Boolean => of::<BooleanArray>(array).value(row).into(),
        DataType::Timestamp(TimeUnit::Millisecond, Some(zone)) => {
            assert_eq!(&**zone, "UTC");
            of::<TimestampMillisecondArray>(array).value(row).into()
        }
        DataType::Date32 => of::<Date32Array>(array).value(row).into(),
        DataType::List(_) => {
            let items = of::<ListArray>(array).value(row);
            json!(items.as_string::<i32>().iter().collect::<Vec<_>>())
        }
        other => panic!("no column is of {other}"),
    }
}

/// A value of GraphQL's response in the form of Arrow: times in milliseconds, days as numbers.
pub(super) fn of_answer(value: &Value, kind: &str) -> Value {
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("time", Value::String(text)) => {
            DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis().into()
        }
        ("day", Value::String(text)) => {
            (text.parse::<NaiveDate>().unwrap() - NaiveDate::default()).num_days().into()
        }
        ("number", number) => number.as_f64().unwrap().into(),
        (_, other) => other.clone(),
    }
}

/// True if a CSV cell matches a value of GraphQL's response.
pub(super) fn cell_matches(cell: &str, value: &Value, kind: &str) -> bool {
    match (kind, value) {
        (_, Value::Null) => cell.is_empty(),
        ("JSON" | "list of texts", value) => serde_json::from_str::<Value>(cell).unwrap() == *value,
        ("number", number) => cell.parse::<f64>().ok() == number.as_f64(),
        ("text", Value::String(text)) => {
            // Ignores the quote before characters that could begin a formula.
            let is_line = text.starts_with(['\t', '\r', '\n']);
            let mut characters =
                cell.strip_prefix('\'').filter(|_| is_line).unwrap_or(cell).chars().peekable();
            let (mut begins, mut without) = (true, String::new());
            while let Some(character) = characters.next() {
                let guarded = characters.peek().is_some_and(|next| "=+-@＝＋－＠'".contains(*next));
                if begins && character == '\'' && guarded {
                    without.extend(characters.next());
                } else {
                    without.push(character);
                }
                begins = ";\t\r\n".contains(character) || begins && character.is_whitespace();
            }
            without == *text
        }
        (_, Value::String(text)) => cell == text,
        (_, value) => value.to_string().as_str() == cell,
    }
}
