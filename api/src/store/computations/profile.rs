//! Windows of the statistical profile.

use std::collections::BTreeMap;

use entity::{
    Timestamp,
    ids::{ClusterId, KeyTime, ProfileId},
    profile::{Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, ExprTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};

use crate::{
    domain::{
        profile::{self, Damaged, Window},
        report::ProfileReport,
    },
    encryption::DecryptError,
    store::core::{
        composite_in::IsOneOf, error::StoreError, multi_list, read_rows::ReadSelect,
        row_encryption::AssociatedData, scoped::AccountStore, upsert::keep_existing_row,
    },
};

/// The key of a window within its account: its cluster, its start and its identifier.
pub type WindowKey = (ClusterId, KeyTime, ProfileId);

impl AccountStore {
    /// Returns the windows of a cluster that begin at or after `from` and before `to`, the newest first.
    /// With `after`, only the windows that follow that window in this order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
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
        Ok(select.read_models(&self.read_executor()).await?)
    }

    /// Returns the keys of the newest windows of each cluster that begin at or after `from` and before
    /// `to`, at most `max_per_cluster` per cluster.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.profile.newest", skip_all)]
    pub async fn newest_profile_windows(
        &self,
        clusters: &[ClusterId],
        (from, to): (Option<KeyTime>, Option<KeyTime>),
        max_per_cluster: u64,
    ) -> Result<Vec<WindowKey>, StoreError> {
        // One arm of the union per cluster, each with a limit of its own: each one reads the end of a
        // range of the primary key.
        let arms = clusters.iter().map(|cluster| {
            let mut select = self.select::<Entity>().filter(Column::ClusterId.eq(*cluster));
            if let Some(from) = from {
                select = select.filter(Column::StartedAt.gte(from));
            }
            if let Some(to) = to {
                select = select.filter(Column::StartedAt.lt(to));
            }
            let select = select.select_only().columns([Column::ClusterId, Column::StartedAt, Column::Id]);
            let select =
                select.order_by_desc(Column::StartedAt).order_by_desc(Column::Id).limit(max_per_cluster);
            select.into_query()
        });
        let Some(statement) = multi_list::union_all(arms) else { return Ok(Vec::new()) };
        let rows = self.read_executor().query_all(&statement).await?;
        rows.into_iter().map(|row| Ok(row.try_get_many_by_index()?)).collect()
    }

    /// Returns the windows that exist among `keys`, in no particular order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.profile.by_key", skip_all)]
    pub async fn profiles_by_key(&self, keys: &[WindowKey]) -> Result<Vec<Model>, StoreError> {
        let is_one_of_keys = keys.iter().fold(Condition::any(), |alternatives, (cluster, started_at, id)| {
            let is_of_cluster = Condition::all().add(Column::ClusterId.eq(*cluster));
            alternatives.add(is_of_cluster.add(Column::StartedAt.eq(*started_at)).add(Column::Id.eq(*id)))
        });
        // The clusters and times are filtered beside the keys, since SQLite uses no index for
        // alternatives.
        let select = self
            .select::<Entity>()
            .filter(Column::ClusterId.is_one_of(keys.iter().map(|(cluster, ..)| *cluster)))
            .filter(Column::StartedAt.is_one_of(keys.iter().map(|(_, started_at, _)| *started_at)));
        Ok(select.filter(is_one_of_keys).read_models(&self.read_executor()).await?)
    }

    /// Returns the decrypted profile of a window.
    ///
    /// # Errors
    /// Returns [`StoreError::Decryption`] if it cannot be decrypted.
    pub fn profile_of(&self, row: &Model) -> Result<Window, StoreError> {
        let name = self.profile_row(row.cluster_id, row.started_at, row.id);
        Ok(Window::unpack(&self.decrypt_row(&name, row.key_id, &row.sealed)?)?)
    }

    fn profile_row(&self, cluster: ClusterId, started_at: KeyTime, id: ProfileId) -> AssociatedData {
        let key: [&[u8]; 3] = [&cluster.0.to_le_bytes(), &started_at.0.to_le_bytes(), id.0.as_bytes()];
        AssociatedData::new("profiles", self.account_id(), &key)
    }

    /// Inserts the windows of a report.
    pub(crate) async fn record_profiles(
        &self,
        cluster: ClusterId,
        reports: &[ProfileReport],
    ) -> Result<(), StoreError> {
        // The rows are sorted by key, since all transactions must lock in the same order.
        let reports: BTreeMap<(KeyTime, ProfileId), _> = reports
            .iter()
            .map(|report| ((report.started_at.timestamp().into(), report.id), report))
            .collect();
        let rows = reports.into_iter().map(|((started_at, id), report)| {
            let sealed =
                self.encrypt_bytes(&self.profile_row(cluster, started_at, id), &profile::pack(report));
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
        self.insert::<Entity>(rows.collect(), &keep_existing_row::<Entity>()).await?;
        Ok(())
    }
}

impl From<Damaged> for StoreError {
    fn from(_: Damaged) -> Self {
        Self::Decryption(DecryptError::Damaged)
    }
}
