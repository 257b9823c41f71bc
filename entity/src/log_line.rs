//! `log_lines`: lines of the logs of schedulers, workers and nannies. Rows are inserted once and never
//! updated.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned,
    by_index::positional,
    ids::{AccountId, ClusterId, KeyTime, LogLineId, WorkerId},
};

/// The kind of process that wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Source {
    /// The scheduler.
    #[sea_orm(string_value = "scheduler")]
    Scheduler,
    /// A worker.
    #[sea_orm(string_value = "worker")]
    Worker,
    /// The process that supervises a worker.
    #[sea_orm(string_value = "nanny")]
    Nanny,
}

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "log_lines")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub logged_at: KeyTime,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: LogLineId,
        pub source: Source,
        pub worker_id: Option<WorkerId>,
        /// The worker's address or name.
        pub worker: Option<String>,
        pub level: String,
        pub logger: String,
        /// The number of consecutive repetitions of the line.
        pub repeated: i64,
        /// The key that encrypts the text.
        pub key_id: i64,
        /// The line, encrypted.
        pub sealed: Vec<u8>,
        /// The change of the cluster that the line arrived with, as in `clusters.changed_at`.
        pub arrived_at: i64,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
