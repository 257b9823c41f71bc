//! Batch loaders for answers about several clusters. Each reads its data in one statement per batch.

use std::{collections::HashMap, sync::Arc};

use async_graphql::dataloader::Loader;
use entity::{
    computation::{self, State},
    ids::ClusterId,
    worker,
};

use crate::{
    domain::answer::{ComputationStateCount, ErrorKind, FunctionTime, MAX_EVIDENCE},
    graphql::engine::loaders::StoreReader,
    store::{FunctionUsage, StoreError},
};

/// The key of the number of a cluster's computations in each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ComputationStatesKey(pub(crate) ClusterId);

impl Loader<ComputationStatesKey> for StoreReader {
    type Value = Vec<ComputationStateCount>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ComputationStatesKey],
    ) -> Result<HashMap<ComputationStatesKey, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.computation_states(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, states)| (ComputationStatesKey(cluster), states)).collect())
    }
}

/// The key of a cluster's newest computations in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NewestComputationsKey(pub(crate) ClusterId, pub(crate) State);

impl Loader<NewestComputationsKey> for StoreReader {
    type Value = Vec<computation::Model>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[NewestComputationsKey],
    ) -> Result<HashMap<NewestComputationsKey, Self::Value>, Self::Error> {
        let pairs: Vec<_> =
            keys.iter().map(|NewestComputationsKey(cluster, state)| (*cluster, *state)).collect();
        let found = self.0.newest_computations(&pairs, MAX_EVIDENCE as u64).await?;
        Ok(keys.iter().copied().zip(found).collect())
    }
}

/// The key of a cluster's most frequent errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ErrorKindsKey(pub(crate) ClusterId);

impl Loader<ErrorKindsKey> for StoreReader {
    type Value = Vec<ErrorKind>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ErrorKindsKey]) -> Result<HashMap<ErrorKindsKey, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.error_kinds(&clusters, MAX_SHOWN).await?;
        Ok(found.into_iter().map(|(cluster, kinds)| (ErrorKindsKey(cluster), kinds)).collect())
    }
}

/// The key of a cluster's workers that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DeadWorkersKey(pub(crate) ClusterId);

impl Loader<DeadWorkersKey> for StoreReader {
    type Value = Vec<worker::Model>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[DeadWorkersKey],
    ) -> Result<HashMap<DeadWorkersKey, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.dead_workers(&clusters, MAX_EVIDENCE as u64).await?;
        Ok(keys.iter().copied().zip(found).collect())
    }
}

/// The key of the number of clients connected to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnectedClientsKey(pub(crate) ClusterId);

impl Loader<ConnectedClientsKey> for StoreReader {
    type Value = i64;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ConnectedClientsKey],
    ) -> Result<HashMap<ConnectedClientsKey, i64>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.connected_clients(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, clients)| (ConnectedClientsKey(cluster), clients)).collect())
    }
}

/// The key of a cluster's functions with the longest compute time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TopFunctionsKey(pub(crate) ClusterId);

impl Loader<TopFunctionsKey> for StoreReader {
    type Value = Vec<FunctionTime>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[TopFunctionsKey],
    ) -> Result<HashMap<TopFunctionsKey, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.functions_of_clusters(&clusters, (None, None), MAX_SHOWN).await?;
        let times = |functions: Vec<FunctionUsage>| {
            let time = |row: FunctionUsage| FunctionTime { prefix: row.prefix, compute_us: row.compute_us };
            functions.into_iter().map(time).collect()
        };
        Ok(found.into_iter().map(|(cluster, found)| (TopFunctionsKey(cluster), times(found))).collect())
    }
}

/// The number of items that an answer shows.
const MAX_SHOWN: i64 = 5;
const _: () = assert!(MAX_SHOWN.unsigned_abs() == MAX_EVIDENCE as u64);
