//! `error_occurrences`: one row per task that failed by itself. Rows are written once and never changed.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    error_group::Origin,
    ids::{
        AccountId, ClusterId, ComputationId, ErrorGroupId, ErrorOccurrenceId, SpanId, TaskGroupId, WorkerId,
    },
};

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "error_occurrences")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: ErrorOccurrenceId,
        /// The number of the error in the cluster, from 1. `None` if the reporter did not number its errors.
        pub number: Option<i64>,
        pub computation_id: Option<ComputationId>,
        pub task_group_id: Option<TaskGroupId>,
        pub occurred_at: Timestamp,
        pub key: String,
        pub exception_type: Option<String>,
        pub worker: Option<String>,
        /// The origin of the error.
        pub origin: Origin,
        /// The number of attempts that failed before this one.
        pub retries: i64,
        pub span_id: Option<SpanId>,
        pub worker_id: Option<WorkerId>,
        /// The error group. `None` for errors that were stored before groups existed.
        pub group_id: Option<ErrorGroupId>,
        /// The identifier of the key that `sealed` is encrypted with.
        pub key_id: i64,
        /// The message and the traceback, encrypted.
        pub sealed: Option<Vec<u8>>,
        /// The change number of the change that added the row, see `clusters.changed_at`.
        pub arrived_at: i64,
    }

    summary_fields {
        AccountId account_id,
        ClusterId cluster_id,
        Id id,
        Number number,
        ComputationId computation_id,
        TaskGroupId task_group_id,
        OccurredAt occurred_at,
        Key key,
        ExceptionType exception_type,
        Worker worker,
        Origin origin,
        Retries retries,
        WorkerId worker_id,
        GroupId group_id,
    }
    empty_fields {
        span_id: None,
        key_id: 0,
        sealed: None,
        arrived_at: 0,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
