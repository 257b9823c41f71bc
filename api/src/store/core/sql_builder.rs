//! A statement composed of several SQL texts. Its limits are literals, since the planner needs to know
//! them.

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
const MAX_SHAREABLE_VALUES: usize = 16;

/// The text of a statement, and its bound values.
///
/// On PostgreSQL a value that occurs several times is bound once. A generic plan cannot know that two
/// parameters are equal: it has to compare them first, has a higher estimated cost than a custom plan,
/// and PostgreSQL would plan again at each execution.
pub(crate) struct SqlBuilder {
    backend: DbBackend,
    sql: String,
    values: Vec<Value>,
    /// The indexes of the values whose placeholder later equal values use.
    shareable_values: Vec<usize>,
}

impl SqlBuilder {
    pub(crate) fn new(backend: DbBackend) -> Self {
        Self { backend, sql: String::with_capacity(1_024), values: Vec::new(), shareable_values: Vec::new() }
    }

    /// Appends SQL text.
    pub(crate) fn push_sql(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    /// Appends a statement with its values.
    pub(crate) fn push_select(&mut self, select: &SelectStatement) {
        self.push_select_with_replacements(select, &[]);
    }

    /// Appends a statement. `replacements` has one item for each value of the statement: the expression
    /// that replaces the value, or `None` for a value that becomes a parameter.
    pub(crate) fn push_select_with_replacements(
        &mut self,
        select: &SelectStatement,
        replacements: &[Option<String>],
    ) {
        let backend = self.backend;
        let mut writer = SelectWriter { builder: self, replacements: replacements.iter() };
        match backend {
            DbBackend::Postgres => PostgresQueryBuilder.prepare_select_statement(select, &mut writer),
            _ => SqliteQueryBuilder.prepare_select_statement(select, &mut writer),
        }
    }

    /// Appends a parameter that is never shared with another value.
    pub(crate) fn push_parameter(&mut self, value: Value) {
        self.values.push(value);
        self.push_placeholder(self.values.len());
    }

    /// Appends a parameter that may be shared with an equal value.
    fn push_shareable_parameter(&mut self, value: Value) {
        if self.backend != DbBackend::Postgres {
            return self.push_parameter(value);
        }
        if let Some(index) = self.shareable_values.iter().find(|index| self.values[**index] == value) {
            return self.push_placeholder(index + 1);
        }
        if self.shareable_values.len() < MAX_SHAREABLE_VALUES {
            self.shareable_values.push(self.values.len());
        }
        self.push_parameter(value);
    }

    /// Appends the placeholder of a value, counted from 1.
    fn push_placeholder(&mut self, number: usize) {
        match self.backend {
            // Writing to a string does not fail.
            DbBackend::Postgres => _ = write!(self.sql, "${number}"),
            _ => self.sql.push('?'),
        }
    }

    /// Appends a LIMIT as a number. With a bound limit, PostgreSQL's generic plan assumes a tenth of the
    /// rows. It looks too costly, and PostgreSQL plans the statement again at each execution.
    pub(crate) fn push_limit(&mut self, rows: u64) {
        self.push_sql(&format!(" LIMIT {rows}"));
    }

    pub(crate) fn into_statement(self) -> Statement {
        Statement::from_sql_and_values(self.backend, self.sql, Values(self.values))
    }
}

/// A SQL writer that appends a statement to a [`SqlBuilder`].
struct SelectWriter<'a> {
    builder: &'a mut SqlBuilder,
    /// The replacements for the values that are not written yet.
    replacements: slice::Iter<'a, Option<String>>,
}

impl fmt::Write for SelectWriter<'_> {
    fn write_str(&mut self, sql: &str) -> fmt::Result {
        self.builder.sql.write_str(sql)
    }
}

impl fmt::Display for SelectWriter<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.builder.sql)
    }
}

impl SqlWriter for SelectWriter<'_> {
    fn push_param<T: QueryBuilder>(&mut self, value: Value, _: &T) {
        match self.replacements.next() {
            Some(Some(expression)) => self.builder.push_sql(expression),
            _ => self.builder.push_shareable_parameter(value),
        }
    }

    fn as_writer(&mut self) -> &mut dyn fmt::Write {
        self
    }
}
