//! The number of threads of a cluster over time.

use std::collections::HashMap;

use async_graphql::SimpleObject;
use chrono::{DateTime, Utc};
use entity::{ids::ClusterId, thread_change::Model};

use crate::{
    graphql::engine::{loaders::ParentList, projection::inline_members, scalar::BigInt},
    store::{
        AccountStore, StoreError, ThreadChangeSort,
        core::page::{Page, PageRequest},
    },
};

/// A change of the number of threads of a cluster.
#[derive(SimpleObject)]
pub(crate) struct ThreadChange {
    /// The time of the change, by the scheduler's clock.
    at: DateTime<Utc>,
    /// The number of threads of all workers after the change.
    threads: BigInt,
}

inline_members! { ThreadChange: at, threads }

impl From<Model> for ThreadChange {
    fn from(row: Model) -> Self {
        let at = DateTime::from_timestamp_millis(row.changed_at.0).unwrap_or_default();
        Self { at, threads: BigInt(row.threads) }
    }
}

impl ParentList<ClusterId, ThreadChangeSort> for AccountStore {
    type Row = Model;

    async fn pages(
        &self,
        parents: &[ClusterId],
        sort: ThreadChangeSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        self.thread_change_pages(parents, sort, request).await
    }

    async fn counts(&self, parents: &[ClusterId]) -> Result<HashMap<ClusterId, i64>, StoreError> {
        self.thread_change_counts(parents).await
    }
}
