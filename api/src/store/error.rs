//! What can go wrong in the store, by what can be done about it.

use sea_orm::{DbErr, RuntimeErr, SqlErr};

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
}

impl StoreError {
    /// Every identifier that was drawn is taken.
    pub(crate) fn no_free_identifier() -> Self {
        Self::Conflict(DbErr::RecordNotInserted)
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
        sqlx::Error::Database(error) => match error.code().as_deref() {
            // PostgreSQL: serialization failure, deadlock.
            Some("40001" | "40P01") => Kind::Contention,
            // A lock that was not had in time.
            Some("55P03") => Kind::Unavailable,
            // PostgreSQL classes: connection exception, insufficient resources, operator intervention
            // (which a statement timeout is, too), system error.
            Some(code) if code.len() == 5 && ["08", "53", "57", "58"].contains(&&code[..2]) => {
                Kind::Unavailable
            }
            // SQLite: the lower byte of an extended result code is what kind it is of; busy, locked, i/o error,
            // full, cannot open.
            Some(code)
                if code.parse::<u32>().is_ok_and(|code| [5, 6, 10, 13, 14].contains(&(code & 0xff))) =>
            {
                Kind::Unavailable
            }
            _ => Kind::Unexpected,
        },
        _ => Kind::Unexpected,
    }
}
