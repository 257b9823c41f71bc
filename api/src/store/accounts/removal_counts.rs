//! The amount of data that is removed with quarantined clusters.

use entity::{
    AccountOwned, Timestamp, cluster, computation, error_occurrence, event, log_line, profile, span,
    task_group, usage_hour, worker,
};
use sea_orm::{
    ColumnTrait, PaginatorTrait, QueryFilter, QuerySelect,
    sea_query::{Expr, Func},
};

use crate::store::core::{error::StoreError, scoped::AccountStore};

/// The numbers of rows of clusters that are to be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovalCounts {
    /// The clusters.
    pub clusters: u64,
    /// The number of those clusters that were first seen before the time from which on the token's reports
    /// are removed.
    pub clusters_seen_before: u64,
    /// Their workers.
    pub workers: u64,
    /// Their computations.
    pub computations: u64,
    /// Their task groups.
    pub task_groups: u64,
    /// Their spans.
    pub spans: u64,
    /// Their errors.
    pub errors: u64,
    /// Their events.
    pub events: u64,
    /// Lines of their logs.
    pub log_lines: u64,
    /// Windows of their profiles.
    pub profiles: u64,
    /// Hours in which they used something.
    pub usage_hours: u64,
}

impl AccountStore {
    /// Counts the rows of the clusters that are quarantined for a token.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster_removal.counts", skip_all)]
    pub async fn quarantined_counts(
        &self,
        token: &str,
        since: Timestamp,
    ) -> Result<RemovalCounts, StoreError> {
        let clusters_seen_before = self
            .select_with_hidden::<cluster::Entity>()
            .filter(cluster::Column::Id.in_subquery(self.quarantined_ids(token)))
            .filter(cluster::Column::FirstSeenAt.lt(since));
        Ok(RemovalCounts {
            clusters: self.count_hidden::<cluster::Entity>(token).await?,
            clusters_seen_before: clusters_seen_before.count(&self.read_executor()).await?,
            workers: self.count_hidden::<worker::Entity>(token).await?,
            computations: self.count_hidden::<computation::Entity>(token).await?,
            task_groups: self.count_hidden::<task_group::Entity>(token).await?,
            spans: self.count_hidden::<span::Entity>(token).await?,
            errors: self.count_hidden::<error_occurrence::Entity>(token).await?,
            events: self.count_hidden::<event::Entity>(token).await?,
            log_lines: self.count_hidden::<log_line::Entity>(token).await?,
            profiles: self.count_hidden::<profile::Entity>(token).await?,
            usage_hours: self.count_hidden::<usage_hour::Entity>(token).await?,
        })
    }

    async fn count_hidden<E: AccountOwned>(&self, token: &str) -> Result<u64, StoreError> {
        let cluster_id = E::CLUSTER_ID.expect("the table is one of clusters");
        let hidden_rows = self.select_with_hidden::<E>();
        let hidden_rows = hidden_rows.filter(cluster_id.in_subquery(self.quarantined_ids(token)));
        let count = hidden_rows.select_only().expr_as(Func::count(Expr::cust("*")), "count");
        let count: Option<i64> = count.into_tuple().one(&self.read_executor()).await?;
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default())
    }
}
