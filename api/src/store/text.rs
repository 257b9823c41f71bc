//! Statements put together of others, with numbers written out where a database plans by them.

use std::fmt::{self, Write as _};

use sea_orm::{
    DbBackend, Statement, Value,
    sea_query::{
        PostgresQueryBuilder, QueryBuilder, SelectStatement, SqlWriter, SqlWriterValues, SqliteQueryBuilder,
    },
};

/// The text of a statement, and the values bound to it.
pub(super) struct Text {
    backend: DbBackend,
    sql: SqlWriterValues,
}

impl Text {
    pub(super) fn new(backend: DbBackend) -> Self {
        let (placeholder, numbered) = match backend {
            DbBackend::Postgres => PostgresQueryBuilder.placeholder(),
            _ => SqliteQueryBuilder.placeholder(),
        };
        Self { backend, sql: SqlWriterValues::new(placeholder, numbered) }
    }

    /// The text of one statement.
    pub(super) fn of(backend: DbBackend, select: &SelectStatement) -> Self {
        let mut text = Self::new(backend);
        text.select(select);
        text
    }

    /// Adds words.
    pub(super) fn words(&mut self, words: &str) {
        // A text takes everything.
        let _ = self.sql.write_str(words);
    }

    /// Adds a statement with its values.
    pub(super) fn select(&mut self, select: &SelectStatement) {
        match self.backend {
            DbBackend::Postgres => PostgresQueryBuilder.prepare_select_statement(select, &mut self.sql),
            _ => SqliteQueryBuilder.prepare_select_statement(select, &mut self.sql),
        }
    }

    /// Adds a statement, with something else in place of the values for which `stand_in` has it, by where they stand in it.
    pub(super) fn select_with(
        &mut self,
        select: &SelectStatement,
        stand_in: impl Fn(usize) -> Option<String>,
    ) {
        let mut sql = StandIns { sql: &mut self.sql, stand_in, place: 0 };
        match self.backend {
            DbBackend::Postgres => PostgresQueryBuilder.prepare_select_statement(select, &mut sql),
            _ => SqliteQueryBuilder.prepare_select_statement(select, &mut sql),
        }
    }

    /// Adds a value.
    pub(super) fn value(&mut self, value: Value) {
        match self.backend {
            DbBackend::Postgres => self.sql.push_param(value, &PostgresQueryBuilder),
            _ => self.sql.push_param(value, &SqliteQueryBuilder),
        }
    }

    /// Adds a bound to the rows of the statement before it, as a number: `PostgreSQL` does not know one that is bound
    /// when it makes a plan for all values, takes it for a tenth of the rows, and rather plans anew each time.
    pub(super) fn limit(&mut self, rows: u64) {
        self.words(&format!(" LIMIT {rows}"));
    }

    /// The text, and the values in their order.
    pub(super) fn into_parts(self) -> (String, Vec<Value>) {
        let (sql, values) = self.sql.into_parts();
        (sql, values.0)
    }

    pub(super) fn statement(self) -> Statement {
        let (sql, values) = self.sql.into_parts();
        Statement::from_sql_and_values(self.backend, sql, values)
    }
}

/// A text to which a statement is added with something else in place of some of its values.
struct StandIns<'a, F> {
    sql: &'a mut SqlWriterValues,
    stand_in: F,
    /// How many values came before.
    place: usize,
}

impl<F> fmt::Write for StandIns<'_, F> {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        self.sql.write_str(words)
    }
}

impl<F> fmt::Display for StandIns<'_, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sql.fmt(formatter)
    }
}

impl<F: Fn(usize) -> Option<String>> SqlWriter for StandIns<'_, F> {
    fn push_param<T: QueryBuilder>(&mut self, value: Value, query_builder: &T) {
        match (self.stand_in)(self.place) {
            // A text takes everything.
            Some(stand_in) => _ = self.sql.write_str(&stand_in),
            None => self.sql.push_param(value, query_builder),
        }
        self.place += 1;
    }

    fn as_writer(&mut self) -> &mut dyn fmt::Write {
        self
    }
}
