//! Clusters, as an operator manages them on the command line.

use std::sync::Arc;

use entity::{Timestamp, cluster, ids::ClusterId};

use crate::{
    clock::Clock,
    domain::{audit::Actor, life_cycle::State, slug::Slug, stop::StopReason},
    store::{AccountStore, HandOverOutcome, RemovalCounts, StoreError, SystemStore},
};

/// The operator's access to clusters.
#[derive(Clone)]
pub struct Clusters {
    store: SystemStore,
    clock: Arc<dyn Clock>,
}

/// The reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The account does not exist.
    #[error("there is no account '{0}'")]
    NoAccount(Slug),
    /// The account has no such cluster.
    #[error("there is no cluster {0} in account '{1}'")]
    NoCluster(i64, Slug),
    /// The account has no such token, and no cluster that was reported with it.
    #[error("account '{1}' has no token '{0}', and nothing was reported with it")]
    NoToken(String, Slug),
    /// Nothing is quarantined for the token, so nothing can be removed.
    #[error(
        "nothing is quarantined for the token '{0}': run the command without --confirm first, and check what it would delete"
    )]
    NotQuarantined(String),
    /// The account has no such member.
    #[error("there is no user '{0}' in account '{1}'")]
    NoMember(Slug, Slug),
    /// The cluster has closed.
    #[error("the cluster {0} has closed")]
    Closed(i64),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Clusters {
    /// Returns the operator's access to the clusters in `store`.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Returns the newest clusters of an account in the given states.
    ///
    /// # Errors
    /// Returns [`ClusterError::NoAccount`] if the account does not exist, or an error if the database
    /// does not answer.
    pub async fn list(
        &self,
        account: &Slug,
        states: &[State],
        limit: u64,
    ) -> Result<Vec<cluster::Model>, ClusterError> {
        let id = self.account_id(account).await?;
        Ok(self.store.newest_clusters(id, states, limit).await?)
    }

    /// Requests a cluster to stop.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn stop(
        &self,
        account: &Slug,
        id: ClusterId,
        reason: Option<StopReason>,
    ) -> Result<(), ClusterError> {
        let account_id = self.account_id(account).await?;
        match self.store.stop_cluster(account_id, id, reason, self.clock.timestamp()).await? {
            Some(row) if row.status == cluster::Status::Closed => Err(ClusterError::Closed(id.0)),
            Some(_) => Ok(()),
            None => Err(ClusterError::NoCluster(id.0, account.clone())),
        }
    }

    /// Makes a member the owner of a cluster.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn hand_over(&self, account: &Slug, id: ClusterId, user: &Slug) -> Result<(), ClusterError> {
        let no_member = || ClusterError::NoMember(user.clone(), account.clone());
        let store = self.account_store(account).await?;
        let user = self.store.user_by_name(user.as_str()).await?.ok_or_else(no_member)?;
        match store.transfer_cluster(id, user.id, self.clock.timestamp()).await? {
            HandOverOutcome::Done(_) => Ok(()),
            HandOverOutcome::NoMember => Err(no_member()),
            HandOverOutcome::Missing => Err(ClusterError::NoCluster(id.0, account.clone())),
        }
    }

    /// Deletes a cluster. It is hidden at once, and a running server removes its rows.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn delete(&self, account: &Slug, id: ClusterId) -> Result<(), ClusterError> {
        if self.account_store(account).await?.delete_cluster(id, self.clock.timestamp()).await? {
            Ok(())
        } else {
            Err(ClusterError::NoCluster(id.0, account.clone()))
        }
    }

    /// Quarantines the clusters that were reported with a token at or after `since`. With `confirm`,
    /// removes the clusters already quarantined for the token instead. Returns the affected rows by
    /// kind.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn forget_token(
        &self,
        account: &Slug,
        token: &str,
        since: Timestamp,
        confirm: bool,
    ) -> Result<RemovalCounts, ClusterError> {
        let store = self.account_store_with_token(account, token).await?;
        let now = self.clock.timestamp();
        if !confirm {
            store.quarantine_reports(token, since, now).await?;
        }
        let counts = store.quarantined_counts(token, since).await?;
        if confirm && store.remove_quarantined(token, now).await? == 0 {
            return Err(ClusterError::NotQuarantined(token.to_owned()));
        }
        Ok(counts)
    }

    /// Restores the clusters that are quarantined for a token. Returns their number.
    ///
    /// # Errors
    /// [`ClusterError`]
    pub async fn restore_token(&self, account: &Slug, token: &str) -> Result<u64, ClusterError> {
        let store = self.account_store_with_token(account, token).await?;
        Ok(store.restore_reports(token, self.clock.timestamp()).await?)
    }

    /// Returns the store of the account, if the token exists or clusters were reported with it.
    async fn account_store_with_token(
        &self,
        account: &Slug,
        token: &str,
    ) -> Result<AccountStore, ClusterError> {
        let store = self.account_store(account).await?;
        let exists = store.has_token_or_reports(token).await?;
        if exists { Ok(store) } else { Err(ClusterError::NoToken(token.to_owned(), account.clone())) }
    }

    /// Returns the store of the account for changes by an operator.
    async fn account_store(&self, account: &Slug) -> Result<AccountStore, ClusterError> {
        let id = self.account_id(account).await?;
        Ok(self.store.for_operator(id, Actor::operator(self.clock.timestamp())))
    }

    async fn account_id(&self, slug: &Slug) -> Result<entity::ids::AccountId, ClusterError> {
        let account = self.store.account_by_slug(slug).await?;
        account.map(|account| account.id).ok_or_else(|| ClusterError::NoAccount(slug.clone()))
    }
}
