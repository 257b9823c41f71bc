//! The operations, each as a request to the server, as hand-written statements and as a request to
//! PostGraphile.

mod date;
mod deep_page;
mod drill_down;
mod fine_metrics;
mod heat_map;
mod list_page;

use serde_json::{Value, json};
use uuid::Uuid;

use super::data::{DeepPosition, History};

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bind {
    Uuid(Uuid),
    Int(i64),
}

/// An operation, with different parameters in turn.
pub(super) struct Operation {
    pub(super) name: &'static str,
    /// The bodies of the requests.
    pub(super) requests: Vec<Vec<u8>>,
    /// The statement whose rows contain the result.
    pub(super) statement: String,
    /// The statement whose single value is the `data` of the response, as JSON.
    pub(super) json_statement: String,
    /// The statement with the same rows, in the dialect of SQLite.
    pub(super) sqlite_statement: String,
    /// The parameters of the statements for each request.
    pub(super) binds: Vec<Vec<Bind>>,
    /// Returns the number of the statement's rows that the `data` of a response contains.
    pub(super) rows: fn(&Value) -> usize,
    pub(super) postgraphile: PostgraphileQuery,
    pub(super) aims: Aims,
}

/// An operation as a query of PostGraphile.
pub(super) struct PostgraphileQuery {
    pub(super) document: String,
    /// The variables of each request.
    pub(super) variables: Vec<Value>,
    /// The variables with which the same document returns the cluster before the page. Its cursor is the
    /// variable `after` of the requests.
    pub(super) variables_before: Option<Value>,
    /// Returns the number of rows that the `data` of a response contains.
    pub(super) rows: fn(&Value) -> usize,
}

/// The smallest ratios that count as met.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aims {
    /// The capacity over that of JSON by the database.
    pub(super) json: f64,
    /// The capacity over that of PostGraphile.
    pub(super) postgraphile: f64,
    /// The processor time of the statement on SQLite over the server's.
    pub(super) sqlite: f64,
}

pub(super) fn all_operations(history: &History, deep_position: &DeepPosition) -> Vec<Operation> {
    vec![
        list_page::operation(history),
        drill_down::operation(history),
        heat_map::operation(history),
        fine_metrics::operation(history),
        deep_page::operation(history, deep_position),
    ]
}

fn request(document: &str, variables: &Value) -> Vec<u8> {
    json!({ "query": document, "variables": variables }).to_string().into_bytes()
}

fn list_length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

/// Converts a statement that needs no other change to the dialect of SQLite: numbered parameters, and no
/// casts.
fn to_sqlite(statement: &str) -> String {
    let casts = ["::bigint", "::double precision", "::text", "::uuid"];
    casts.iter().fold(statement.replace('$', "?"), |text, cast| text.replace(cast, ""))
}
