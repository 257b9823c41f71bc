//! Statements put together of others, with numbers written out where a database plans by them.

use std::{
    fmt::{self, Write as _},
    slice,
};

use sea_orm::{
    DbBackend, Statement, Value,
    sea_query::{PostgresQueryBuilder, QueryBuilder, SelectStatement, SqlWriter, SqliteQueryBuilder, Values},
};

/// How many values are compared with later ones. Those that repeat, the account above all, come first; to compare all of a long list
/// would take long.
const MAX_KNOWN: usize = 16;

/// The text of a statement, and the values bound to it.
///
/// On PostgreSQL a value that occurs several times is bound once. A plan for all values cannot know that two parameters are equal: it
/// has to compare them first, looks dearer for that than one for the values at hand, and PostgreSQL would plan anew each time.
pub(super) struct Text {
    backend: DbBackend,
    sql: String,
    values: Vec<Value>,
    /// Where values stand that may come again.
    known: Vec<usize>,
}

impl Text {
    pub(super) fn new(backend: DbBackend) -> Self {
        Self { backend, sql: String::with_capacity(1_024), values: Vec::new(), known: Vec::new() }
    }

    /// Adds words.
    pub(super) fn words(&mut self, words: &str) {
        self.sql.push_str(words);
    }

    /// Adds a statement with its values.
    pub(super) fn select(&mut self, select: &SelectStatement) {
        self.select_with(select, &[]);
    }

    /// Adds a statement, with something else in place of those of its values, in their order, for which `stand_ins` has it.
    pub(super) fn select_with(&mut self, select: &SelectStatement, stand_ins: &[Option<String>]) {
        let backend = self.backend;
        let mut sql = Writer { text: self, stand_ins: stand_ins.iter() };
        match backend {
            DbBackend::Postgres => PostgresQueryBuilder.prepare_select_statement(select, &mut sql),
            _ => SqliteQueryBuilder.prepare_select_statement(select, &mut sql),
        }
    }

    /// Adds a value that has nothing to do with any other.
    pub(super) fn value(&mut self, value: Value) {
        self.values.push(value);
        self.name(self.values.len());
    }

    /// Adds a value that may have come before, or come again.
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

    /// Adds the name of a value, counted from 1.
    fn name(&mut self, number: usize) {
        match self.backend {
            // Writing to a string does not fail.
            DbBackend::Postgres => _ = write!(self.sql, "${number}"),
            _ => self.sql.push('?'),
        }
    }

    /// Adds a bound to the rows of the statement before it, as a number: `PostgreSQL` does not know one that is bound
    /// when it makes a plan for all values, takes it for a tenth of the rows, and rather plans anew each time.
    pub(super) fn limit(&mut self, rows: u64) {
        self.words(&format!(" LIMIT {rows}"));
    }

    pub(super) fn statement(self) -> Statement {
        Statement::from_sql_and_values(self.backend, self.sql, Values(self.values))
    }
}

/// Adds a statement to a text.
struct Writer<'a> {
    text: &'a mut Text,
    /// What stands in for the values that are to come.
    stand_ins: slice::Iter<'a, Option<String>>,
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
        match self.stand_ins.next() {
            Some(Some(stand_in)) => self.text.words(stand_in),
            _ => self.text.repeatable(value),
        }
    }

    fn as_writer(&mut self) -> &mut dyn fmt::Write {
        self
    }
}
