//! `data_policies`: the classes of data that an account accepts, and how long it keeps them. A class
//! without a row has the defaults.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{AccountOwned, by_index::positional, ids::AccountId};

/// A class of data that an account may accept or refuse.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    EnumIter,
    DeriveActiveEnum,
    Serialize,
    Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "Text")]
#[serde(rename_all = "snake_case")]
pub enum DataClass {
    /// The cluster, its workers, clients, samples and usage.
    #[sea_orm(string_value = "basic")]
    Basic,
    /// Task groups, computations, spans, fine metrics, and usage and activity by function.
    #[sea_orm(string_value = "tasks")]
    Tasks,
    /// Errors of Dask itself.
    #[sea_orm(string_value = "dask_errors")]
    DaskErrors,
    /// Exceptions raised by the computations' own code.
    #[sea_orm(string_value = "user_errors")]
    UserErrors,
    /// Code that called Dask, and source lines in tracebacks and profiles.
    #[sea_orm(string_value = "code")]
    Code,
    /// Statistical profiles.
    #[sea_orm(string_value = "profiles")]
    Profiles,
    /// Events.
    #[sea_orm(string_value = "events")]
    Events,
    /// Logs.
    #[sea_orm(string_value = "logs")]
    Logs,
}

positional! {
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "data_policies")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub account_id: AccountId,
        #[sea_orm(primary_key, auto_increment = false)]
        pub data_class: DataClass,
        pub accepted: bool,
        /// The retention in days. Null for the default.
        pub retention_days: Option<i64>,
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl AccountOwned for Entity {
    const ACCOUNT_ID: Column = Column::AccountId;
    const CLUSTER_ID: Option<Column> = None;
}
