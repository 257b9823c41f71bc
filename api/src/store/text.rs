//! Statements put together of others, with numbers written out where a database plans by them.

use sea_orm::{
    DbBackend, Statement,
    sea_query::{PostgresQueryBuilder, QueryBuilder, SelectStatement, SqlWriterValues, SqliteQueryBuilder},
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

    /// Adds words.
    pub(super) fn words(&mut self, words: &str) {
        // A text takes everything.
        let _ = std::fmt::Write::write_str(&mut self.sql, words);
    }

    /// Adds a statement with its values.
    pub(super) fn select(&mut self, select: &SelectStatement) {
        match self.backend {
            DbBackend::Postgres => PostgresQueryBuilder.prepare_select_statement(select, &mut self.sql),
            _ => SqliteQueryBuilder.prepare_select_statement(select, &mut self.sql),
        }
    }

    /// Adds a bound to the rows of the statement before it, as a number: `PostgreSQL` does not know one that is bound
    /// when it makes a plan for all values, takes it for a tenth of the rows, and rather plans anew each time.
    pub(super) fn limit(&mut self, rows: u64) {
        self.words(&format!(" LIMIT {rows}"));
    }

    pub(super) fn statement(self) -> Statement {
        let (sql, values) = self.sql.into_parts();
        Statement::from_sql_and_values(self.backend, sql, values)
    }
}
