//! The sums of the fine performance metrics of closed clusters. The report that closes a cluster stores them,
//! and so does each report that changes the metrics later, so that readers need one row.

use std::collections::HashMap;

use entity::{
    Row, fine_metric,
    fine_metric_total::{Column, Entity, Model},
    ids::ClusterId,
};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait};

use super::fine_metric::{NO_SPAN, Packed, PackedRow, select_packed, unpacked};
use crate::{
    domain::fine_metric::{CellReader, Table},
    store::core::{
        composite_in::IsOneOf, error::StoreError, read_rows::ReadRows, scoped::AccountStore, upsert::replace,
    },
};

/// The largest number of spans that a report sums. The metrics of other clusters are summed by each reader,
/// because reports of other clusters wait meanwhile on SQLite.
const MAX_SPANS: usize = 5_000;

/// The cluster and its packed sums.
type TotalRow = (ClusterId, Vec<u8>);

impl Packed for TotalRow {
    fn packed(&self) -> &[u8] {
        &self.1
    }
}

impl AccountStore {
    /// Stores the sums of a closed cluster. Its report holds the lock of the cluster.
    pub(crate) async fn record_fine_metric_total(&self, cluster: ClusterId) -> Result<(), StoreError> {
        use fine_metric::Column::{ClusterId as OfCluster, SpanId};
        let select = select_packed(self.select_with_hidden()).filter(OfCluster.eq(cluster));
        let select = select.order_by_asc(SpanId).limit(MAX_SPANS as u64 + 1);
        let rows: Vec<PackedRow> = select.into_tuple().all(&self.write_executor()).await?;
        if rows.is_empty() || rows.len() > MAX_SPANS {
            return self.remove_fine_metric_total(cluster).await;
        }
        let packed = unpacked(rows, |rows| {
            let (mut labels, mut table) = (CellReader::default(), Table::default());
            for (_, span, packed) in rows {
                table.add(&labels.read(&packed, span != NO_SPAN)?);
            }
            Ok(table.pack())
        });
        // Damaged rows must not fail the report. Their readers report them.
        let Ok(sums) = packed.await else { return self.remove_fine_metric_total(cluster).await };
        let row = Model { account_id: self.account_id(), cluster_id: cluster, sums };
        self.insert::<Entity>(vec![row], &replace::<Entity>()).await?;
        Ok(())
    }

    /// Removes the sums of a cluster that reports again after it closed.
    pub(crate) async fn remove_fine_metric_total(&self, cluster: ClusterId) -> Result<(), StoreError> {
        let removal = self.delete_with_hidden::<Entity>().filter(Column::ClusterId.eq(cluster));
        removal.exec(&self.write_executor()).await?;
        Ok(())
    }

    /// Returns the stored sums of clusters, and the reader that has their labels.
    pub(super) async fn fine_metric_totals(
        &self,
        clusters: &[ClusterId],
    ) -> Result<(CellReader, HashMap<ClusterId, Table>), StoreError> {
        if clusters.is_empty() {
            return Ok(Default::default());
        }
        let select = self.select::<Entity>().select_only().columns([Column::ClusterId, Column::Sums]);
        let select = select.filter(Column::ClusterId.is_one_of(clusters.iter().copied()));
        let decode = |row: &Row<'_>| -> Result<TotalRow, _> { Ok((row.get(0)?, row.get(1)?)) };
        let rows = self.read_executor().read_rows(select.build(self.backend()), decode).await?;
        let read = unpacked(rows, |rows| {
            let mut labels = CellReader::default();
            let tables = rows.into_iter().map(|(cluster, sums)| Ok((cluster, labels.read_table(&sums)?)));
            let tables = tables.collect::<Result<_, _>>()?;
            Ok((labels, tables))
        });
        Ok(read.await?)
    }
}
