//! `retention_watch`: the state of the retention check, and the hold that stops deletion. It has at most
//! one row, which belongs to no account.

use sea_orm::entity::prelude::*;

use crate::Timestamp;

/// The reason why deletion is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Hold {
    /// The server's clock is far ahead of the newest report.
    #[sea_orm(string_value = "clock")]
    Clock,
    /// Far more rows of an account than usual are due. The deletion of other accounts' rows continues.
    #[sea_orm(string_value = "amount")]
    Amount,
}

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "retention_watch")]
pub struct Model {
    /// Always 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// The latest time confirmed by a report, or by a server that has run since then.
    pub trusted_at: Timestamp,
    /// The largest number of rows that a recent round deleted of one account. It decays with each smaller
    /// round.
    pub usual_rows: i64,
    /// The reason why deletion is stopped. `None` if it is not stopped.
    pub hold: Option<Hold>,
    /// The time at which deletion was stopped, by the server's clock. `None` if it is not stopped.
    pub held_at: Option<Timestamp>,
    /// The number of rows due in the accounts whose deletion is stopped, as far as they were counted.
    pub due_rows: i64,
    /// True if an operator confirmed the hold, so that the next round resumes deletion.
    pub confirmed: bool,
    /// The start of the last round that ended without an error. `None` if none has.
    pub completed_at: Option<Timestamp>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
