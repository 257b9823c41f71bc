//! Errors of the store, classified by the possible reaction.

use sea_orm::{DbErr, RuntimeErr, SqlErr};

use crate::encryption::DecryptError;

/// PostgreSQL's code for a write in a read-only transaction.
const READ_ONLY: &str = "25006";

/// An error of a statement or transaction.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique name or identifier is taken.
    #[error("the row conflicts with an existing one")]
    Conflict(#[source] DbErr),
    /// Two transactions collided. A retry may succeed.
    #[error("the transaction collided with another")]
    Contention(#[source] DbErr),
    /// The database cannot serve now: it is unreachable, full, or out of connections.
    #[error("the database is unavailable")]
    Unavailable(#[source] DbErr),
    /// The server or the data has a defect.
    #[error("the database refused a statement")]
    Unexpected(#[source] DbErr),
    /// A stored text cannot be decrypted.
    #[error(transparent)]
    Decryption(DecryptError),
    /// The request exceeds the amount of data that is read for one response.
    #[error("{0}")]
    TooLarge(&'static str),
}

impl StoreError {
    /// Returns true if the database is read-only, as a standby is.
    pub(crate) fn is_read_only(&self) -> bool {
        let Self::Unavailable(
            DbErr::Exec(RuntimeErr::SqlxError(cause)) | DbErr::Query(RuntimeErr::SqlxError(cause)),
        ) = self
        else {
            return false;
        };
        cause.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() == Some(READ_ONLY)
    }

    /// The error of a database or network that did not respond in time.
    pub(crate) fn timed_out() -> Self {
        Self::Unavailable(DbErr::Custom("no response within the timeout".to_owned()))
    }

    /// The error of an insert whose generated identifiers are all taken.
    pub(crate) fn no_free_identifier() -> Self {
        Self::Conflict(DbErr::RecordNotInserted)
    }
}

impl StoreError {
    /// The error of a stored value that cannot have been written so.
    pub(crate) fn damaged(error: &dyn std::fmt::Display) -> Self {
        Self::Unexpected(DbErr::Type(error.to_string()))
    }
}

impl From<DbErr> for StoreError {
    fn from(error: DbErr) -> Self {
        if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) {
            return Self::Conflict(error);
        }
        match &error {
            DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => Self::Unavailable(error),
            DbErr::Exec(RuntimeErr::SqlxError(cause)) | DbErr::Query(RuntimeErr::SqlxError(cause)) => {
                match kind(cause) {
                    Kind::Contention => Self::Contention(error),
                    Kind::Unavailable => Self::Unavailable(error),
                    Kind::Unexpected => Self::Unexpected(error),
                }
            }
            _ => Self::Unexpected(error),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Contention,
    Unavailable,
    Unexpected,
}

fn kind(error: &sqlx::Error) -> Kind {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Kind::Unavailable,
        sqlx::Error::Database(error) => error.code().map_or(Kind::Unexpected, |code| kind_of_code(&code)),
        _ => Kind::Unexpected,
    }
}

/// Classifies an error code. PostgreSQL's codes have five characters, SQLite's are numbers of up to four
/// digits.
fn kind_of_code(code: &str) -> Kind {
    match (code.len(), code.parse::<u32>()) {
        (5, _) => match code {
            // Serialization failure and deadlock.
            "40001" | "40P01" => Kind::Contention,
            // A lock timeout; a read-only server: a standby, or a primary that was replaced.
            "55P03" | READ_ONLY => Kind::Unavailable,
            // Classes: connection exception, insufficient resources, operator intervention (which includes
            // statement timeouts), system error.
            _ if ["08", "53", "57", "58"].contains(&&code[..2]) => Kind::Unavailable,
            _ => Kind::Unexpected,
        },
        // The lower byte of an extended result code is the primary code: busy, locked, I/O error, full,
        // cannot open.
        (_, Ok(code)) if [5, 6, 10, 13, 14].contains(&(code & 0xff)) => Kind::Unavailable,
        _ => Kind::Unexpected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_their_database_means_them() {
        for (code, kind) in [
            ("40001", Kind::Contention),
            ("40P01", Kind::Contention),
            ("55P03", Kind::Unavailable),
            ("25006", Kind::Unavailable),
            ("08006", Kind::Unavailable),
            ("57014", Kind::Unavailable),
            // The number's lower byte would be SQLite's "busy".
            ("22021", Kind::Unexpected),
            ("42P01", Kind::Unexpected),
            ("5", Kind::Unavailable),
            ("517", Kind::Unavailable),
            ("778", Kind::Unavailable),
            ("13", Kind::Unavailable),
            ("1", Kind::Unexpected),
            ("787", Kind::Unexpected),
        ] {
            assert_eq!(kind_of_code(code), kind, "{code}");
        }
    }
}
