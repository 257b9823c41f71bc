//! `task_groups`: one row per `TaskGroup` object of a scheduler, its values as last reported.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ClusterId, SpanId, TaskGroupId},
    list::{Names, TaskGroupIds},
    positional::positional,
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
        /// The sequence of the report these values come from.
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
        /// Tasks in this state, as in those that follow; none is null, which takes no room.
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
        /// None is null, here and in those that follow: few task groups have any.
        pub disk_read_seconds: Option<f64>,
        pub disk_write_seconds: Option<f64>,
        pub serialize_seconds: Option<f64>,
        pub deserialize_seconds: Option<f64>,
        /// Actions Dask may name that have no column of their own.
        pub other_seconds: Option<f64>,
        pub bytes: i64,
        pub types: Names,
        pub dependencies: TaskGroupIds,
        /// The span it was first used in.
        pub span_id: Option<SpanId>,
        /// Attempts that failed and were tried again.
        pub tasks_retried: i64,
    }

    lists show {
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
    and not {
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
}
