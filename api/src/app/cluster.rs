//! Clusters, as an operator looks after them on the command line.

use std::sync::Arc;

use entity::{cluster, ids::ClusterId};

use crate::{
    clock::Clock,
    domain::{life_cycle::State, slug::Slug, stop::Reason},
    store::{StoreError, SystemStore},
};

/// Looks after clusters.
#[derive(Clone)]
pub struct Clusters {
    store: SystemStore,
    clock: Arc<dyn Clock>,
}

/// Why nothing could be done about a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// There is no such account.
    #[error("there is no account '{0}'")]
    NoAccount(Slug),
    /// There is no such cluster in it.
    #[error("there is no cluster {0} in account '{1}'")]
    NoCluster(i64, Slug),
    /// It is gone already.
    #[error("the cluster {0} has closed")]
    Closed(i64),
    /// The store did not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Clusters {
    /// Those in `store`.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// The newest clusters of an account in some states.
    ///
    /// # Errors
    /// [`ClusterError::NoAccount`], and when the store does not answer.
    pub async fn list(
        &self,
        account: &Slug,
        states: &[State],
        limit: u64,
    ) -> Result<Vec<cluster::Model>, ClusterError> {
        let id = self.account(account).await?;
        Ok(self.store.newest_clusters(id, states, limit).await?)
    }

    /// Tells a cluster to stop.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn stop(
        &self,
        account: &Slug,
        id: ClusterId,
        reason: Option<Reason>,
    ) -> Result<(), ClusterError> {
        let of = self.account(account).await?;
        match self.store.stop_cluster(of, id, reason, self.clock.timestamp()).await? {
            Some(row) if row.status == cluster::Status::Closed => Err(ClusterError::Closed(id.0)),
            Some(_) => Ok(()),
            None => Err(ClusterError::NoCluster(id.0, account.clone())),
        }
    }

    async fn account(&self, slug: &Slug) -> Result<entity::ids::AccountId, ClusterError> {
        let account = self.store.account_by_slug(slug).await?;
        account.map(|account| account.id).ok_or_else(|| ClusterError::NoAccount(slug.clone()))
    }
}
