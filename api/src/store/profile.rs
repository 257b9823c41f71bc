//! Windows of statistical profiles.

use std::collections::BTreeMap;

use entity::{
    Timestamp,
    ids::{ClusterId, KeyTime, ProfileId},
    profile::{Column, Entity, Model},
};
use sea_orm::{ColumnTrait, ExprTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{error::StoreError, scoped::AccountStore, sealed::RowName, upsert::first_wins};
use crate::{
    domain::{
        profile::{self, Damaged, Profile},
        report::ProfileReport,
    },
    seal::SealError,
};

impl AccountStore {
    /// The windows of a cluster that begin from `from` on and before `to`, the newest first, and of those only what
    /// follows the window `after`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.profile.windows", skip_all)]
    pub async fn profile_windows(
        &self,
        cluster: ClusterId,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
        after: Option<(KeyTime, ProfileId)>,
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let mut select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        if let Some(from) = from {
            select = select.filter(Column::StartedAt.gte(KeyTime::from(from)));
        }
        if let Some(to) = to {
            select = select.filter(Column::StartedAt.lt(KeyTime::from(to)));
        }
        if let Some((started_at, id)) = after {
            let same_time = Column::StartedAt.eq(started_at).and(Column::Id.lt(id));
            select = select.filter(Column::StartedAt.lt(started_at).or(same_time));
        }
        let select = select.order_by_desc(Column::StartedAt).order_by_desc(Column::Id).limit(limit);
        Ok(select.all(&self.reads()).await?)
    }

    /// The tree of a window.
    ///
    /// # Errors
    /// [`StoreError::Sealed`] when it cannot be decrypted.
    pub fn profile_of(&self, row: &Model) -> Result<Profile, StoreError> {
        let name = self.profile_row(row.cluster_id, row.started_at, row.id);
        Ok(Profile::unpack(&self.unseal(&name, row.key_id, &row.sealed)?)?)
    }

    fn profile_row(&self, cluster: ClusterId, started_at: KeyTime, id: ProfileId) -> RowName {
        let key: [&[u8]; 3] = [&cluster.0.to_le_bytes(), &started_at.0.to_le_bytes(), id.0.as_bytes()];
        RowName::new("profiles", self.account_id(), &key)
    }

    /// Writes the windows of a report.
    pub(crate) async fn record_profiles(
        &self,
        cluster: ClusterId,
        reports: &[ProfileReport],
    ) -> Result<(), StoreError> {
        // By key: transactions must lock in one order.
        let reports: BTreeMap<(KeyTime, ProfileId), _> = reports
            .iter()
            .map(|report| ((report.started_at.timestamp().into(), report.id), report))
            .collect();
        let rows = reports.into_iter().map(|((started_at, id), report)| {
            let sealed = self.seal(&self.profile_row(cluster, started_at, id), &profile::pack(report));
            Model {
                account_id: self.account_id(),
                cluster_id: cluster,
                started_at,
                id,
                stopped_at: report.stopped_at.timestamp(),
                workers: report.workers.get(),
                samples: report.samples.get(),
                key_id: sealed.key_id,
                sealed: sealed.bytes,
            }
        });
        self.insert::<Entity>(rows.collect(), &first_wins::<Entity>()).await?;
        Ok(())
    }
}

impl From<Damaged> for StoreError {
    fn from(_: Damaged) -> Self {
        Self::Sealed(SealError::Damaged)
    }
}
