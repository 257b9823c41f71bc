//! How many threads a cluster had over time.

use std::collections::HashMap;

use async_graphql::SimpleObject;
use chrono::{DateTime, Utc};
use entity::{ids::ClusterId, thread_change::Model};

use super::{in_place::in_place_members, loaders::ParentList, scalar::BigInt};
use crate::store::{
    AccountStore, StoreError, ThreadChangeSort,
    page::{Page, PageRequest},
};

/// A change of a cluster's size.
#[derive(SimpleObject)]
pub(super) struct ThreadChange {
    /// When, by the scheduler's clock.
    at: DateTime<Utc>,
    /// Threads of all workers from then on.
    threads: BigInt,
}

in_place_members! { ThreadChange: at, threads }

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
