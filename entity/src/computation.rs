//! `computations`: Dask's unit of submitted work.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    by_index::positional,
    ids::{AccountId, ClusterId, ComputationId},
    json_columns::{CodeStacks, SpanIds},
};

/// The state of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum State {
    /// Some of its tasks are unfinished.
    #[sea_orm(string_value = "running")]
    Running,
    /// All of its tasks are done and none erred.
    #[sea_orm(string_value = "finished")]
    Finished,
    /// All of its tasks are done or can never run, and at least one erred.
    #[sea_orm(string_value = "erred")]
    Erred,
    /// The computation ended before all of its tasks were done: they were cancelled, its program was
    /// interrupted, or the scheduler closed.
    #[sea_orm(string_value = "cancelled")]
    Cancelled,
    /// The computation was running at the cluster's last report. `stopped_at` is the time of that report.
    #[sea_orm(string_value = "lost")]
    Lost,
}

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "computations")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: ClusterId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: ComputationId,
        /// The sequence number of the report that these values come from.
        pub sequence: i64,
        pub state: State,
        pub started_at: Timestamp,
        pub stopped_at: Option<Timestamp>,
        /// The spans its task groups belong to.
        pub span_ids: SpanIds,
        /// The places where the client's code called Dask.
        pub code: CodeStacks,
        /// The change number of the cluster's change that wrote the current values, see
        /// `clusters.changed_at`.
        pub arrived_at: i64,
    }

    summary_fields {
        AccountId account_id,
        ClusterId cluster_id,
        Id id,
        State state,
        StartedAt started_at,
        StoppedAt stopped_at,
    }
    empty_fields {
        sequence: 0,
        span_ids: SpanIds::default(),
        code: CodeStacks::default(),
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
