//! Short lists that one column stores as JSON.

use std::collections::BTreeMap;

use sea_orm::FromJsonQueryResult;
use serde::{Deserialize, Serialize};

use crate::{
    data_policy::DataClass,
    ids::{SpanId, TaskGroupId},
};

/// Names, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Names(pub Vec<String>);

/// References to task groups of the same cluster. Some may not be reported yet, or ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct TaskGroupIds(pub Vec<TaskGroupId>);

/// References to spans of the same cluster. Some may not be reported yet, or ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct SpanIds(pub Vec<SpanId>);

/// Patterns for tags, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct TagPatterns(pub Vec<TagPattern>);

/// A pattern for tags with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagPattern {
    /// The key.
    pub key: String,
    /// The value. `None` for any value, and empty for a tag without one.
    pub value: Option<String>,
}

/// Versions of packages by name. `None` for a package that is not installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Packages(pub BTreeMap<String, Option<String>>);

/// Counts by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Counts(pub BTreeMap<String, i64>);

/// The numbers of sent, withheld and dropped items of a cluster, by data class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct Receipt(pub BTreeMap<DataClass, ClassReceipt>);

/// The numbers of sent, withheld and dropped items of one data class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassReceipt {
    /// The number of items that the reporter sent.
    pub sent: i64,
    /// Their size as JSON, in bytes.
    pub bytes: i64,
    /// The number of items that the reporter withheld.
    pub withheld: i64,
    /// The number of items that arrived and were not stored, because the account's data policy refuses
    /// them.
    pub dropped: i64,
}

/// The code that called Dask: one stack per call, the outermost frame first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct CodeStacks(pub Vec<Vec<CodeFrame>>);

/// A frame of a stack. A field is `None` if it is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeFrame {
    /// SHA-256 of the snippet. The text is in a table of its own.
    pub hash: Option<String>,
    /// The file.
    pub file: Option<String>,
    /// The line in the file.
    pub line: Option<i64>,
    /// The line within the snippet, counted from 0.
    pub relative_line: Option<i64>,
}
