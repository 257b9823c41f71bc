//! Clients that were connected to a scheduler.

use std::collections::{BTreeMap, HashMap};

use entity::{
    client::{Column, Entity, Model},
    ids::{ClientId, ClusterId},
};
use sea_orm::{ColumnTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use super::{
    error::StoreError,
    lists,
    page::{Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    upsert::newest_wins,
};
use crate::domain::{bounded::UnixTime, report::ClientReport};

/// The orders clients can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientSort {
    /// The client that connected first comes first.
    OldestFirst,
}

impl Sort for ClientSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "connected_at:asc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::ConnectedAt, Column::Id]
    }

    fn descending(self) -> bool {
        false
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.connected_at.into(), row.id.into()])
    }
}

impl AccountStore {
    /// The same page of the clients of each cluster, in the order of `clusters`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.client.pages", skip_all)]
    pub async fn client_pages(
        &self,
        clusters: &[ClusterId],
        sort: ClientSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let of = |cluster: &ClusterId| self.select::<Entity>().filter(Column::ClusterId.eq(*cluster));
        lists::fetch_each(&self.reads(), clusters.iter().map(of).collect(), sort, request).await
    }

    /// How many clients each cluster has; clusters without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.client.counts", skip_all)]
    pub async fn client_counts(&self, clusters: &[ClusterId]) -> Result<HashMap<ClusterId, i64>, StoreError> {
        let rows: Vec<(ClusterId, i64)> = self
            .select::<Entity>()
            .select_only()
            .column(Column::ClusterId)
            .column_as(Column::Id.count(), "count")
            .filter(Column::ClusterId.is_in(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .into_tuple()
            .all(&self.reads())
            .await?;
        Ok(rows.into_iter().collect())
    }

    /// How many clients are connected to each cluster, as of its newest report; clusters without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.client.connected", skip_all)]
    pub async fn connected_clients(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, i64>, StoreError> {
        let rows: Vec<(ClusterId, i64)> = self
            .select::<Entity>()
            .select_only()
            .column(Column::ClusterId)
            .column_as(Column::Id.count(), "count")
            .filter(Column::ClusterId.is_in(clusters.iter().copied()))
            .filter(Column::DisconnectedAt.is_null())
            .group_by(Column::ClusterId)
            .into_tuple()
            .all(&self.reads())
            .await?;
        Ok(rows.into_iter().collect())
    }

    /// Writes what a report says of clients.
    pub(crate) async fn record_clients(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[ClientReport],
    ) -> Result<(), StoreError> {
        let id = |report: &ClientReport| {
            ClientId(Uuid::new_v5(&Uuid::NAMESPACE_OID, report.id.as_str().as_bytes()))
        };
        // By identifier: a statement must not meet a row twice, and transactions must lock in one order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (id(report), report)).collect();
        let rows = reports.into_iter().map(|(id, report)| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            id,
            sequence,
            dask_id: report.id.as_str().to_owned(),
            environment_id: report.environment_id,
            connected_at: report.connected_at.timestamp(),
            disconnected_at: report.disconnected_at.map(UnixTime::timestamp),
        });
        self.insert::<Entity>(rows.collect(), &newest_wins::<Entity>(Column::Sequence)).await?;
        Ok(())
    }
}
