//! What answers for several clusters of one request rest on, read in one statement each.

use std::{collections::HashMap, sync::Arc};

use async_graphql::dataloader::Loader;
use entity::{
    computation::{self, State},
    ids::ClusterId,
    worker,
};

use super::loaders::Reader;
use crate::{
    domain::answer::{ComputationStates, ErrorKind, FunctionTime, MAX_EVIDENCE},
    store::{FunctionUsage, StoreError},
};

/// The key of how many computations of a cluster are in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StatesOf(pub(super) ClusterId);

impl Loader<StatesOf> for Reader {
    type Value = Vec<ComputationStates>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[StatesOf]) -> Result<HashMap<StatesOf, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.computation_states(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, states)| (StatesOf(cluster), states)).collect())
    }
}

/// The key of a cluster's newest computations in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NewestIn(pub(super) ClusterId, pub(super) State);

impl Loader<NewestIn> for Reader {
    type Value = Vec<computation::Model>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[NewestIn]) -> Result<HashMap<NewestIn, Self::Value>, Self::Error> {
        let of: Vec<_> = keys.iter().map(|NewestIn(cluster, state)| (*cluster, *state)).collect();
        let found = self.0.newest_computations(&of, MAX_EVIDENCE as u64).await?;
        Ok(keys.iter().copied().zip(found).collect())
    }
}

/// The key of the commonest errors of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ErrorKindsOf(pub(super) ClusterId);

impl Loader<ErrorKindsOf> for Reader {
    type Value = Vec<ErrorKind>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ErrorKindsOf]) -> Result<HashMap<ErrorKindsOf, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.error_kinds(&clusters, MOST).await?;
        Ok(found.into_iter().map(|(cluster, kinds)| (ErrorKindsOf(cluster), kinds)).collect())
    }
}

/// The key of the workers of a cluster that died.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DeadWorkersOf(pub(super) ClusterId);

impl Loader<DeadWorkersOf> for Reader {
    type Value = Vec<worker::Model>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[DeadWorkersOf]) -> Result<HashMap<DeadWorkersOf, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.dead_workers(&clusters, MAX_EVIDENCE as u64).await?;
        Ok(keys.iter().copied().zip(found).collect())
    }
}

/// The key of how many clients are connected to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ConnectedTo(pub(super) ClusterId);

impl Loader<ConnectedTo> for Reader {
    type Value = i64;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ConnectedTo]) -> Result<HashMap<ConnectedTo, i64>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.connected_clients(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, clients)| (ConnectedTo(cluster), clients)).collect())
    }
}

/// The key of the functions of a cluster that computed longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TopFunctionsOf(pub(super) ClusterId);

impl Loader<TopFunctionsOf> for Reader {
    type Value = Vec<FunctionTime>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[TopFunctionsOf],
    ) -> Result<HashMap<TopFunctionsOf, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.functions_of_clusters(&clusters, MOST).await?;
        let times = |functions: Vec<FunctionUsage>| {
            let time = |row: FunctionUsage| FunctionTime { prefix: row.prefix, compute_us: row.compute_us };
            functions.into_iter().map(time).collect()
        };
        Ok(found.into_iter().map(|(cluster, found)| (TopFunctionsOf(cluster), times(found))).collect())
    }
}

/// As many as an answer shows.
const MOST: i64 = 5;
const _: () = assert!(MOST.unsigned_abs() == MAX_EVIDENCE as u64);
