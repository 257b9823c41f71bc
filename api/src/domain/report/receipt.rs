//! Privacy receipts: the numbers of items that a reporter sent and withheld.

use std::collections::BTreeMap;

use entity::data_policy::DataClass;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use utoipa::ToSchema;

use super::super::validated::Count;

/// The counts by data class.
pub type Receipt = BTreeMap<Class, ClassReceipt>;

/// A data class that an account may accept or refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The cluster, its workers, clients, samples and usage.
    Basic,
    /// Task groups, computations, spans, fine metrics, and usage and activity by function.
    Tasks,
    /// Failures of Dask itself.
    DaskErrors,
    /// Exceptions of user code.
    UserErrors,
    /// Code that called Dask, and source lines in tracebacks and profiles.
    Code,
    /// Statistical profiles.
    Profiles,
    /// Events.
    Events,
    /// Logs.
    Logs,
}

/// Deserializes from a string. The derived implementation for an enum as a field name would lose the
/// location of an error.
impl<'de> Deserialize<'de> for Class {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "basic" => Ok(Self::Basic),
            "tasks" => Ok(Self::Tasks),
            "dask_errors" => Ok(Self::DaskErrors),
            "user_errors" => Ok(Self::UserErrors),
            "code" => Ok(Self::Code),
            "profiles" => Ok(Self::Profiles),
            "events" => Ok(Self::Events),
            "logs" => Ok(Self::Logs),
            _ => Err(D::Error::custom("not a class of data")),
        }
    }
}

impl From<Class> for DataClass {
    fn from(class: Class) -> Self {
        match class {
            Class::Basic => Self::Basic,
            Class::Tasks => Self::Tasks,
            Class::DaskErrors => Self::DaskErrors,
            Class::UserErrors => Self::UserErrors,
            Class::Code => Self::Code,
            Class::Profiles => Self::Profiles,
            Class::Events => Self::Events,
            Class::Logs => Self::Logs,
        }
    }
}

impl From<DataClass> for Class {
    fn from(class: DataClass) -> Self {
        match class {
            DataClass::Basic => Self::Basic,
            DataClass::Tasks => Self::Tasks,
            DataClass::DaskErrors => Self::DaskErrors,
            DataClass::UserErrors => Self::UserErrors,
            DataClass::Code => Self::Code,
            DataClass::Profiles => Self::Profiles,
            DataClass::Events => Self::Events,
            DataClass::Logs => Self::Logs,
        }
    }
}

/// The counts of one data class over the reporter's lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(default)]
pub struct ClassReceipt {
    /// The number of items sent. An item that was sent again counts once.
    pub sent: Count,
    /// The size of these items as JSON, in characters.
    pub bytes: Count,
    /// The number of items withheld because of the reporter's settings, or because the account refuses
    /// them.
    pub withheld: Count,
}
