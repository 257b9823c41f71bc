//! What became of each class of a cluster's data on its way here.

use std::collections::BTreeMap;

use entity::{
    data_policy::DataClass,
    data_receipt::{Column, Entity, Model},
    ids::ClusterId,
};
use sea_orm::{ColumnTrait, QueryFilter, sea_query::OnConflict};

use super::{error::StoreError, scoped::AccountStore};
use crate::domain::{data_class::Accepted, report::Receipt};

impl AccountStore {
    /// The receipts of these clusters, in no particular order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.data_receipt.of", skip_all)]
    pub async fn data_receipts(&self, clusters: &[ClusterId]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_in(clusters.iter().copied()));
        Ok(select.all(&self.reads()).await?)
    }

    /// Writes what the newest report of a cluster says of all it ever sent. Only the newest may: what was sent
    /// since the one before it counts as dropped where the account refuses it.
    pub(crate) async fn record_receipt(
        &self,
        cluster: ClusterId,
        accepted: &Accepted,
        receipt: &Receipt,
    ) -> Result<(), StoreError> {
        if receipt.is_empty() {
            return Ok(());
        }
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        let known = select.all(&self.writes()).await?;
        let known: BTreeMap<DataClass, Model> = known.into_iter().map(|row| (row.data_class, row)).collect();
        let rows = receipt.iter().map(|(class, counts)| {
            let (class, sent) = (DataClass::from(*class), counts.sent.get());
            let (before, dropped) = known.get(&class).map_or((0, 0), |row| (row.sent, row.dropped));
            // A reporter that took another's place counts from 0 again.
            let since = if sent >= before { sent - before } else { sent };
            Model {
                account_id: self.account_id(),
                cluster_id: cluster,
                data_class: class,
                sent,
                bytes: counts.bytes.get(),
                withheld: counts.withheld.get(),
                dropped: if accepted.accepts(class) { dropped } else { dropped.saturating_add(since) },
            }
        });
        let changed = rows.filter(|row| known.get(&row.data_class) != Some(row)).collect();
        let over = OnConflict::columns([Column::AccountId, Column::ClusterId, Column::DataClass])
            .update_columns([Column::Sent, Column::Bytes, Column::Withheld, Column::Dropped])
            .to_owned();
        self.insert::<Entity>(changed, &over).await?;
        Ok(())
    }
}
