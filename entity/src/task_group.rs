//! `task_groups`: one row per `TaskGroup` object of a scheduler, with its values as last reported.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ClusterId, SpanId, TaskGroupId},
    json_columns::{Names, TaskGroupIds},
};

positional! {
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "task_groups")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: TaskGroupId,
        /// The sequence of the report that these values come from.
        pub sequence: i64,
        pub name: String,
        pub prefix: String,
        pub first_seen_at: Timestamp,
        pub started_at: Option<Timestamp>,
        pub stopped_at: Option<Timestamp>,
        pub tasks: i64,
        pub tasks_succeeded: i64,
        pub tasks_erred: i64,
        pub tasks_blamed: i64,
        /// The number of tasks in this state, as for the states below. Zero is stored as null, which
        /// takes no space.
        pub released: Option<i64>,
        pub waiting: Option<i64>,
        pub no_worker: Option<i64>,
        pub queued: Option<i64>,
        pub processing: Option<i64>,
        pub memory: Option<i64>,
        pub erred: Option<i64>,
        pub forgotten: Option<i64>,
        pub compute_seconds: f64,
        pub transfer_seconds: f64,
        /// The time in seconds. Zero is stored as null, here and below, since few task groups have any.
        pub disk_read_seconds: Option<f64>,
        pub disk_write_seconds: Option<f64>,
        pub serialize_seconds: Option<f64>,
        pub deserialize_seconds: Option<f64>,
        /// The time of actions that have no column of their own. Dask may name any action.
        pub other_seconds: Option<f64>,
        pub bytes: i64,
        pub types: Names,
        pub dependencies: TaskGroupIds,
        /// The span in which it was first used.
        pub span_id: Option<SpanId>,
        /// The number of failed attempts that were retried.
        pub tasks_retried: i64,
    }

    summary_fields {
        AccountId account_id,
        ClusterId cluster_id,
        Id id,
        Name name,
        Prefix prefix,
        FirstSeenAt first_seen_at,
        StartedAt started_at,
        StoppedAt stopped_at,
        Tasks tasks,
        TasksSucceeded tasks_succeeded,
        TasksErred tasks_erred,
        Released released,
        Waiting waiting,
        NoWorker no_worker,
        Queued queued,
        Processing processing,
        Memory memory,
        Erred erred,
        Forgotten forgotten,
        ComputeSeconds compute_seconds,
        TransferSeconds transfer_seconds,
        DiskReadSeconds disk_read_seconds,
        DiskWriteSeconds disk_write_seconds,
        SerializeSeconds serialize_seconds,
        DeserializeSeconds deserialize_seconds,
        OtherSeconds other_seconds,
        Bytes bytes,
    }
    empty_fields {
        sequence: 0,
        tasks_blamed: 0,
        types: Names::default(),
        dependencies: TaskGroupIds::default(),
        span_id: None,
        tasks_retried: 0,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = Some(Column::ClusterId);
}
