//! The GraphQL type of a client: a process that submits work.

use std::collections::HashMap;

use async_graphql::{ID, Object};
use chrono::{DateTime, Utc};
use entity::{client::Model, ids::ClusterId};

use super::environment::Environment;
use crate::{
    graphql::engine::{
        error::ApiError, id::GlobalId, loaders::ParentList, projection::inline_fields, scope::AccountScope,
    },
    store::{
        AccountStore, ClientSort, StoreError,
        core::page::{Page, PageRequest},
    },
};

/// A client process that was connected to a cluster.
pub(crate) struct Client {
    scope: AccountScope,
    row: Model,
}

impl Client {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// A client process that was connected to a cluster.
#[Object]
impl Client {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Client(self.scope.account.id, self.row.cluster_id, self.row.id).into()
    }

    /// Dask's own identifier of the client.
    async fn dask_id(&self) -> &str {
        &self.row.dask_id
    }

    /// The software that the client runs on. Null if it was not reported.
    async fn environment(&self) -> Result<Option<Environment>, ApiError> {
        Environment::find(&self.scope, self.row.cluster_id, self.row.environment_id).await
    }

    /// The time at which the client connected, by the scheduler's clock.
    async fn connected_at(&self) -> DateTime<Utc> {
        self.row.connected_at.0
    }

    /// The time at which the client disconnected, by the scheduler's clock. Null while it is connected,
    /// and if the scheduler was killed before it could report the time.
    async fn disconnected_at(&self) -> Option<DateTime<Utc>> {
        self.row.disconnected_at.map(|time| time.0)
    }
}

inline_fields! { Client: id, dask_id, connected_at, disconnected_at }

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
