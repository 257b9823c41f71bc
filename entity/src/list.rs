//! Short lists kept in one column as JSON.

use sea_orm::FromJsonQueryResult;
use serde::{Deserialize, Serialize};

use crate::ids::TaskGroupId;

/// Names, in the order they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Names(pub Vec<String>);

/// References to task groups of the same cluster; some may not have been reported (yet).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct TaskGroupIds(pub Vec<TaskGroupId>);
