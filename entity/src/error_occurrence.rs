//! `error_occurrences`: one row per task that itself erred. Written once, never changed.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    error_group::Origin,
    ids::{
        AccountId, ClusterId, ComputationId, ErrorGroupId, ErrorOccurrenceId, SpanId, TaskGroupId, WorkerId,
    },
    positional::positional,
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
        pub computation_id: Option<ComputationId>,
        pub task_group_id: Option<TaskGroupId>,
        pub occurred_at: Timestamp,
        pub key: String,
        pub exception_type: Option<String>,
        pub worker: Option<String>,
        /// Whose failure it is.
        pub origin: Origin,
        /// Attempts that failed before this one.
        pub retries: i64,
        pub span_id: Option<SpanId>,
        pub worker_id: Option<WorkerId>,
        /// The errors it looks like; none for those stored before there were groups.
        pub group_id: Option<ErrorGroupId>,
        /// Which key the texts are encrypted with.
        pub key_id: i64,
        /// Message and traceback, encrypted.
        pub sealed: Option<Vec<u8>>,
        /// The change of the cluster that brought it, as `clusters.changed_at` has it.
        pub arrived_at: i64,
    }

    lists show {
        AccountId account_id,
        ClusterId cluster_id,
        Id id,
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
    and not {
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
}
