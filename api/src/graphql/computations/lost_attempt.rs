//! The attempts of tasks that were lost with their workers, by function.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use async_graphql::{Object, SimpleObject, dataloader::Loader};
use entity::{cluster::Model, ids::ClusterId, json_columns::Counts};

use crate::{
    graphql::engine::{error::ApiError, loaders::StoreReader, scalar::BigInt, scope::AccountScope},
    store::StoreError,
};

/// The maximum number of workers of a cluster whose attempts are summed.
const MAX_WORKERS: u64 = 100;

/// The maximum number of functions in one response.
const MAX_FUNCTIONS: usize = 100;

/// The number of tasks of a function that a worker was processing.
#[derive(SimpleObject)]
pub(crate) struct ProcessingFunction {
    /// The function or operation: Dask's task prefix.
    prefix: String,
    /// The number of tasks.
    tasks: BigInt,
}

impl ProcessingFunction {
    /// Returns the functions, the one with the most tasks first.
    pub(crate) fn list(counts: &Counts) -> Vec<Self> {
        let function =
            |(prefix, tasks): (&String, &i64)| Self { prefix: prefix.clone(), tasks: BigInt(*tasks) };
        let mut functions: Vec<Self> = counts.0.iter().map(function).collect();
        functions.sort_by_key(|function| Reverse(function.tasks.0));
        functions
    }
}

/// The attempts of a function's tasks that were lost with their workers.
#[derive(Clone, SimpleObject)]
pub(crate) struct LostAttempts {
    /// The function or operation: Dask's task prefix.
    prefix: String,
    /// The number of attempts. Dask counts them as `suspicious`.
    attempts: BigInt,
    /// The number of workers that died with these attempts.
    workers: BigInt,
}

/// Returns the attempts summed over the workers, the function with the most attempts first. `None` if the
/// functions of a worker are unknown.
fn sum_by_function(workers: Vec<Option<Counts>>) -> Option<Vec<LostAttempts>> {
    let mut sums = BTreeMap::<String, (i64, i64)>::new();
    for counts in workers {
        for (prefix, tasks) in counts?.0 {
            let (attempts, workers) = sums.entry(prefix).or_default();
            *attempts = attempts.saturating_add(tasks);
            *workers += 1;
        }
    }
    let mut lost: Vec<LostAttempts> = sums
        .into_iter()
        .map(|(prefix, (attempts, workers))| LostAttempts {
            prefix,
            attempts: BigInt(attempts),
            workers: BigInt(workers),
        })
        .collect();
    lost.sort_by_key(|lost| Reverse(lost.attempts.0));
    lost.truncate(MAX_FUNCTIONS);
    Some(lost)
}

/// The key of a cluster's lost attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LostAttemptsKey(ClusterId);

impl Loader<LostAttemptsKey> for StoreReader {
    type Value = Option<Vec<LostAttempts>>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[LostAttemptsKey],
    ) -> Result<HashMap<LostAttemptsKey, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.functions_of_dead_workers(&clusters, MAX_WORKERS).await?;
        Ok(found
            .into_iter()
            .map(|(cluster, workers)| (LostAttemptsKey(cluster), sum_by_function(workers)))
            .collect())
    }
}

/// The fields of a cluster that concern workers that died.
pub(crate) struct ClusterLosses<'a> {
    scope: &'a AccountScope,
    row: &'a Model,
}

impl<'a> ClusterLosses<'a> {
    pub(crate) fn new(scope: &'a AccountScope, row: &'a Model) -> Self {
        Self { scope, row }
    }
}

/// The fields of a cluster that concern workers that died.
#[Object]
impl ClusterLosses<'_> {
    /// The attempts of tasks that workers were processing when they died, by function, the function with the
    /// most attempts first, at most 100 functions. Covers the last 100 workers that died, and of each at most
    /// the 20 most frequent functions. Empty if no worker died. Null if the functions of one of these workers
    /// were not reported.
    async fn lost_attempts(&self) -> Result<Option<Vec<LostAttempts>>, ApiError> {
        let found = self.scope.loader.load_one(LostAttemptsKey(self.row.id)).await?;
        Ok(found.unwrap_or_else(|| Some(Vec::new())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_summed_by_function() {
        let counts = |counts: &[(&str, i64)]| {
            Some(Counts(counts.iter().map(|(prefix, tasks)| ((*prefix).to_owned(), *tasks)).collect()))
        };
        let sums = |workers| {
            let lost = sum_by_function(workers)?.into_iter();
            Some(lost.map(|lost| (lost.prefix, lost.attempts.0, lost.workers.0)).collect::<Vec<_>>())
        };
        let workers = vec![counts(&[("load", 2), ("fit", 1)]), counts(&[]), counts(&[("fit", 4)])];
        let expected = vec![("fit".to_owned(), 5, 2), ("load".to_owned(), 2, 1)];
        assert_eq!(sums(workers), Some(expected));
        assert_eq!(sums(vec![]), Some(vec![]));
        assert_eq!(sums(vec![counts(&[("load", 2)]), None]), None);
    }
}
