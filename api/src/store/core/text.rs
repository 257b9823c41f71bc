//! SQL text composed of several statements. Limits are written out as numbers, since the planner needs
//! to know them.

use std::{
    fmt::{self, Write as _},
    slice,
};

use sea_orm::{
    DbBackend, Statement, Value,
    sea_query::{PostgresQueryBuilder, QueryBuilder, SelectStatement, SqlWriter, SqliteQueryBuilder, Values},
};

/// The number of values that later values are compared with. Values that repeat, above all the account,
/// come first, and comparing all values of a long list would take long.
const MAX_KNOWN: usize = 16;

/// The text of a statement, and its bound values.
///
/// On PostgreSQL a value that occurs several times is bound once. A generic plan cannot know that two
/// parameters are equal: it has to compare them first, has a higher estimated cost than a custom plan,
/// and PostgreSQL would plan again at each execution.
pub(crate) struct SqlBuilder {
    backend: DbBackend,
    sql: String,
    values: Vec<Value>,
    /// The indexes of the values that may repeat.
    known: Vec<usize>,
}

impl SqlBuilder {
    pub(crate) fn new(backend: DbBackend) -> Self {
        Self { backend, sql: String::with_capacity(1_024), values: Vec::new(), known: Vec::new() }
    }

    /// Appends SQL text.
    pub(crate) fn push_sql(&mut self, words: &str) {
        self.sql.push_str(words);
    }

    /// Appends a statement with its values.
    pub(crate) fn select(&mut self, select: &SelectStatement) {
        self.select_with(select, &[]);
    }

    /// Appends a statement. Each value for which `stand_ins` has an expression, by position, is replaced
    /// by that expression.
    pub(crate) fn select_with(&mut self, select: &SelectStatement, stand_ins: &[Option<String>]) {
        let backend = self.backend;
        let mut sql = Writer { text: self, replacements: stand_ins.iter() };
        match backend {
            DbBackend::Postgres => PostgresQueryBuilder.prepare_select_statement(select, &mut sql),
            _ => SqliteQueryBuilder.prepare_select_statement(select, &mut sql),
        }
    }

    /// Appends a parameter that is never shared with another value.
    pub(crate) fn value(&mut self, value: Value) {
        self.values.push(value);
        self.name(self.values.len());
    }

    /// Appends a parameter that may be shared with an equal value.
    fn repeatable(&mut self, value: Value) {
        if self.backend != DbBackend::Postgres {
            return self.value(value);
        }
        if let Some(place) = self.known.iter().find(|place| self.values[**place] == value) {
            return self.name(place + 1);
        }
        if self.known.len() < MAX_KNOWN {
            self.known.push(self.values.len());
        }
        self.value(value);
    }

    /// Appends the placeholder of a value, counted from 1.
    fn name(&mut self, number: usize) {
        match self.backend {
            // Writing to a string does not fail.
            DbBackend::Postgres => _ = write!(self.sql, "${number}"),
            _ => self.sql.push('?'),
        }
    }

    /// Appends a LIMIT as a number. With a bound limit, PostgreSQL's generic plan assumes a tenth of the
    /// rows, looks too costly, and the statement is planned again at each execution.
    pub(crate) fn limit(&mut self, rows: u64) {
        self.push_sql(&format!(" LIMIT {rows}"));
    }

    pub(crate) fn statement(self) -> Statement {
        Statement::from_sql_and_values(self.backend, self.sql, Values(self.values))
    }
}

/// A SQL writer that appends a statement to a [`SqlBuilder`].
struct Writer<'a> {
    text: &'a mut SqlBuilder,
    /// The replacements for the values still to be written.
    replacements: slice::Iter<'a, Option<String>>,
}

impl fmt::Write for Writer<'_> {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        self.text.sql.write_str(words)
    }
}

impl fmt::Display for Writer<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text.sql)
    }
}

impl SqlWriter for Writer<'_> {
    fn push_param<T: QueryBuilder>(&mut self, value: Value, _: &T) {
        match self.replacements.next() {
            Some(Some(stand_in)) => self.text.push_sql(stand_in),
            _ => self.text.repeatable(value),
        }
    }

    fn as_writer(&mut self) -> &mut dyn fmt::Write {
        self
    }
}
