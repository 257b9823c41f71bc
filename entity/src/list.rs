//! Short lists kept in one column as JSON.

use std::collections::BTreeMap;

use sea_orm::FromJsonQueryResult;
use serde::{Deserialize, Serialize};

use crate::{
    data_policy::DataClass,
    ids::{SpanId, TaskGroupId},
};

/// Names, in the order they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Names(pub Vec<String>);

/// References to task groups of the same cluster; some may not have been reported (yet).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct TaskGroupIds(pub Vec<TaskGroupId>);

/// References to spans of the same cluster; some may not have been reported (yet).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct SpanIds(pub Vec<SpanId>);

/// Which tags are meant, in the order they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct TagPatterns(pub Vec<TagPattern>);

/// Tags with a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagPattern {
    /// The key.
    pub key: String,
    /// The value, if not all are meant; empty for a tag without one.
    pub value: Option<String>,
}

/// Versions of packages by name; none for one that is not installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Packages(pub BTreeMap<String, Option<String>>);

/// Numbers of things by their kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Counts(pub BTreeMap<String, i64>);

/// What became of a cluster's data on its way here, by class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Receipt(pub BTreeMap<DataClass, ClassReceipt>);

/// What became of one class of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassReceipt {
    /// Items the reporter sent.
    pub sent: i64,
    /// Their size as JSON.
    pub bytes: i64,
    /// Items the reporter kept back.
    pub withheld: i64,
    /// Items that arrived and were not stored, because the account refuses them.
    pub dropped: i64,
}

/// Where code called Dask: one stack per call, the outermost frame first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct CodeStacks(pub Vec<Vec<CodeFrame>>);

/// One frame of a stack, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeFrame {
    /// SHA-256 of the snippet, whose text has a table of its own.
    pub hash: Option<String>,
    /// The file it stands in.
    pub file: Option<String>,
    /// The line in the file.
    pub line: Option<i64>,
    /// The line within the snippet, counted from 0.
    pub relative_line: Option<i64>,
}
