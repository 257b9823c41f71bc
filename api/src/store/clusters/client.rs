//! Clients that were connected to a scheduler.

use std::collections::{BTreeMap, HashMap};

use entity::{
    client::{Column, Entity, Model},
    ids::{ClientId, ClusterId},
};
use sea_orm::{ColumnTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use crate::{
    domain::{report::ClientReport, validated::UnixTime},
    store::core::{
        composite_in::IsOneOf,
        error::StoreError,
        multi_list,
        page::{Key, KeyPart, Page, PageRequest, Sort},
        read_rows::ReadSelect,
        scoped::AccountStore,
        upsert::keep_newest_row,
    },
};

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
    /// Returns the same page of the clients of each cluster, in the order of `clusters`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.client.pages", skip_all)]
    pub async fn client_pages(
        &self,
        clusters: &[ClusterId],
        sort: ClientSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let select_clients =
            |cluster: &ClusterId| self.select::<Entity>().filter(Column::ClusterId.eq(*cluster));
        multi_list::fetch_pages(
            &self.read_executor(),
            clusters.iter().map(select_clients).collect(),
            sort,
            request,
        )
        .await
    }

    /// Returns a client of a cluster.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.client.get", skip_all)]
    pub async fn client(&self, cluster: ClusterId, id: ClientId) -> Result<Option<Model>, StoreError> {
        Ok(self
            .select::<Entity>()
            .filter(Column::ClusterId.eq(cluster))
            .filter(Column::Id.eq(id))
            .one(&self.read_executor())
            .await?)
    }

    /// Counts the clients of each cluster. Clusters without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.client.counts", skip_all)]
    pub async fn client_counts(&self, clusters: &[ClusterId]) -> Result<HashMap<ClusterId, i64>, StoreError> {
        let rows: Vec<(ClusterId, i64)> = self
            .select::<Entity>()
            .select_only()
            .column(Column::ClusterId)
            .column_as(Column::Id.count(), "count")
            .filter(Column::ClusterId.is_one_of(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .read_tuples(&self.read_executor())
            .await?;
        Ok(rows.into_iter().collect())
    }

    /// Counts the connected clients of each cluster, as of its newest report. Clusters without any are
    /// missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
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
            .filter(Column::ClusterId.is_one_of(clusters.iter().copied()))
            .filter(Column::DisconnectedAt.is_null())
            .group_by(Column::ClusterId)
            .read_tuples(&self.read_executor())
            .await?;
        Ok(rows.into_iter().collect())
    }

    /// Writes the clients of a report.
    pub(crate) async fn record_clients(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[ClientReport],
    ) -> Result<(), StoreError> {
        let id = |report: &ClientReport| {
            ClientId(Uuid::new_v5(&Uuid::NAMESPACE_OID, report.id.as_str().as_bytes()))
        };
        // Sorted by identifier: a statement must not write a row twice, and locks must be taken in one order.
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
        self.insert::<Entity>(rows.collect(), &keep_newest_row::<Entity>(Column::Sequence)).await?;
        Ok(())
    }
}
