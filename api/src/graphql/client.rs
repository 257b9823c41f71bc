//! Clients: the processes that submit work.

use std::collections::HashMap;

use async_graphql::Object;
use chrono::{DateTime, Utc};
use entity::{client::Model, ids::ClusterId};

use super::{
    environment::Environment, error::ApiError, in_place::in_place, loaders::ParentList, scope::AccountScope,
};
use crate::store::{
    AccountStore, ClientSort, StoreError,
    page::{Page, PageRequest},
};

/// A client that was connected to a cluster.
pub(super) struct Client {
    scope: AccountScope,
    row: Model,
}

impl Client {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// A client that was connected to a cluster.
#[Object]
impl Client {
    /// Dask's own identifier.
    async fn dask_id(&self) -> &str {
        &self.row.dask_id
    }

    /// The software it runs on; null when it did not tell.
    async fn environment(&self) -> Result<Option<Environment>, ApiError> {
        Environment::find(&self.scope, self.row.cluster_id, self.row.environment_id).await
    }

    /// When it connected, by the scheduler's clock.
    async fn connected_at(&self) -> DateTime<Utc> {
        self.row.connected_at.0
    }

    /// When it left, by the scheduler's clock; null while it is there, and when the scheduler was killed before it
    /// could tell.
    async fn disconnected_at(&self) -> Option<DateTime<Utc>> {
        self.row.disconnected_at.map(|time| time.0)
    }
}

in_place! { Client: dask_id, connected_at, disconnected_at }

impl ParentList<ClusterId, ClientSort> for AccountStore {
    type Row = Model;

    async fn pages(
        &self,
        parents: &[ClusterId],
        sort: ClientSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        self.client_pages(parents, sort, request).await
    }

    async fn counts(&self, parents: &[ClusterId]) -> Result<HashMap<ClusterId, i64>, StoreError> {
        self.client_counts(parents).await
    }
}
