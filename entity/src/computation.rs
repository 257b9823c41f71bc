//! `computations`: Dask's unit of submitted work.

use sea_orm::entity::prelude::*;

use crate::{
    AccountOwned, Timestamp,
    ids::{AccountId, ClusterId, ComputationId},
    list::{CodeStacks, SpanIds},
    positional::positional,
};

/// How far a computation is.
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
    /// It ended before all of its tasks were done: they were cancelled, its program was interrupted, or the
    /// scheduler closed.
    #[sea_orm(string_value = "cancelled")]
    Cancelled,
    /// It was running when its cluster was last heard of. `stopped_at` is when that was.
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
        /// The sequence of the report these values come from.
        pub sequence: i64,
        pub state: State,
        pub started_at: Timestamp,
        pub stopped_at: Option<Timestamp>,
        /// The spans its task groups belong to.
        pub span_ids: SpanIds,
        /// Where the client's code called Dask.
        pub code: CodeStacks,
        /// The change of the cluster that brought it as it is, as `clusters.changed_at` has it.
        pub arrived_at: i64,
    }

    lists show {
        AccountId account_id,
        ClusterId cluster_id,
        Id id,
        State state,
        StartedAt started_at,
        StoppedAt stopped_at,
    }
    and not {
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
}
