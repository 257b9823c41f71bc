//! What can go wrong in the store, by what can be done about it.

use sea_orm::{DbErr, RuntimeErr, SqlErr};

use crate::seal::SealError;

/// PostgreSQL's code for a change where nothing can be changed.
const READ_ONLY: &str = "25006";

/// A statement or transaction that did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique name or identifier is taken.
    #[error("the row conflicts with an existing one")]
    Conflict(#[source] DbErr),
    /// Two transactions were in each other's way; the same again may succeed.
    #[error("the transaction collided with another")]
    Contention(#[source] DbErr),
    /// The database cannot serve now: gone, full, or out of connections.
    #[error("the database is unavailable")]
    Unavailable(#[source] DbErr),
    /// A defect of ours or of the data.
    #[error("the database refused a statement")]
    Unexpected(#[source] DbErr),
    /// A text that was read cannot be decrypted.
    #[error(transparent)]
    Sealed(SealError),
    /// More was asked for at once than is read for one answer.
    #[error("{0}")]
    TooMuch(&'static str),
}

impl StoreError {
    /// Whether the database only reads, as a standby does.
    pub(super) fn is_of_a_standby(&self) -> bool {
        let Self::Unavailable(
            DbErr::Exec(RuntimeErr::SqlxError(cause)) | DbErr::Query(RuntimeErr::SqlxError(cause)),
        ) = self
        else {
            return false;
        };
        cause.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() == Some(READ_ONLY)
    }

    /// The database, or what lies between, said nothing in time.
    pub(crate) fn silent() -> Self {
        Self::Unavailable(DbErr::Custom("it does not answer in time".to_owned()))
    }

    /// Every identifier that was drawn is taken.
    pub(crate) fn no_free_identifier() -> Self {
        Self::Conflict(DbErr::RecordNotInserted)
    }
}

impl StoreError {
    /// A value was read that cannot be what was written.
    pub(crate) fn damaged(what: &dyn std::fmt::Display) -> Self {
        Self::Unexpected(DbErr::Type(what.to_string()))
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

/// PostgreSQL's codes have five characters, SQLite's are numbers of up to four digits.
fn kind_of_code(code: &str) -> Kind {
    match (code.len(), code.parse::<u32>()) {
        (5, _) => match code {
            // Serialization failure, deadlock.
            "40001" | "40P01" => Kind::Contention,
            // A lock that was not had in time; a server that only reads, as a standby does and a primary that was replaced.
            "55P03" | READ_ONLY => Kind::Unavailable,
            // Classes: connection exception, insufficient resources, operator intervention (which a statement
            // timeout is, too), system error.
            _ if ["08", "53", "57", "58"].contains(&&code[..2]) => Kind::Unavailable,
            _ => Kind::Unexpected,
        },
        // The lower byte of an extended result code is what kind it is of; busy, locked, i/o error, full, cannot
        // open.
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
            // Its lower byte would be SQLite's "busy".
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
