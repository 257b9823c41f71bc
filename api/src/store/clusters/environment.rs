//! Environments: the software that processes run on, and the number of a cluster's processes on each.

use std::collections::{BTreeMap, HashMap};

use entity::{
    client,
    environment::{Column, Entity, Model},
    ids::{ClusterId, EnvironmentId},
    json_columns::Packages,
    worker,
};
use sea_orm::{ColumnTrait, QueryFilter, QuerySelect};

use crate::{
    domain::{environment::Role, report::EnvironmentReport, validated::Text},
    store::core::{
        composite_in::{IsOneOf, one_of},
        error::StoreError,
        read_rows::ReadSelect,
        scoped::AccountStore,
        upsert::keep_existing_row,
    },
};

/// The number of processes of one role on one environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvironmentUse {
    /// The role.
    pub role: Role,
    /// The environment.
    pub environment: EnvironmentId,
    /// The number of processes.
    pub processes: i64,
}

impl AccountStore {
    /// Returns the environments that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.environment.by_id", skip_all)]
    pub async fn environments_by_id(
        &self,
        ids: &[(ClusterId, EnvironmentId)],
    ) -> Result<Vec<Model>, StoreError> {
        let is_one_of_ids = one_of(Column::ClusterId, Column::Id, ids);
        Ok(self.select::<Entity>().filter(is_one_of_ids).read_models(&self.read_executor()).await?)
    }

    /// Counts the workers and clients of each cluster by environment. Clusters without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.environment.uses", skip_all)]
    pub async fn environment_uses(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Vec<EnvironmentUse>>, StoreError> {
        let workers: Vec<(ClusterId, EnvironmentId, i64)> = self
            .select::<worker::Entity>()
            .select_only()
            .column(worker::Column::ClusterId)
            .column(worker::Column::EnvironmentId)
            .column_as(worker::Column::Id.count(), "count")
            .filter(worker::Column::ClusterId.is_one_of(clusters.iter().copied()))
            .filter(worker::Column::EnvironmentId.is_not_null())
            .group_by(worker::Column::ClusterId)
            .group_by(worker::Column::EnvironmentId)
            .read_tuples(&self.read_executor())
            .await?;
        let clients: Vec<(ClusterId, EnvironmentId, i64)> = self
            .select::<client::Entity>()
            .select_only()
            .column(client::Column::ClusterId)
            .column(client::Column::EnvironmentId)
            .column_as(client::Column::Id.count(), "count")
            .filter(client::Column::ClusterId.is_one_of(clusters.iter().copied()))
            .filter(client::Column::EnvironmentId.is_not_null())
            .group_by(client::Column::ClusterId)
            .group_by(client::Column::EnvironmentId)
            .read_tuples(&self.read_executor())
            .await?;
        let mut uses: HashMap<ClusterId, Vec<EnvironmentUse>> = HashMap::new();
        for (role, rows) in [(Role::Worker, workers), (Role::Client, clients)] {
            for (cluster, environment, processes) in rows {
                uses.entry(cluster).or_default().push(EnvironmentUse { role, environment, processes });
            }
        }
        Ok(uses)
    }

    /// Writes the environments of a report.
    pub(crate) async fn record_environments(
        &self,
        cluster: ClusterId,
        reports: &[EnvironmentReport],
    ) -> Result<(), StoreError> {
        let text = |text: &Option<Text<256>>| text.as_ref().map(|text| text.as_str().to_owned());
        // Sorted by identifier: a statement must not write a row twice, and locks must be taken in one order.
        let mut rows = BTreeMap::new();
        for report in reports {
            let packages = report.packages.iter();
            rows.entry(report.id).or_insert_with(|| Model {
                account_id: self.account_id(),
                cluster_id: cluster,
                id: report.id,
                python: text(&report.python),
                executable: report.executable.as_ref().map(|text| text.as_str().to_owned()),
                os: text(&report.os),
                os_release: text(&report.os_release),
                machine: text(&report.machine),
                packages: Packages(
                    packages.map(|(name, version)| (name.as_str().to_owned(), text(version))).collect(),
                ),
            });
        }
        self.insert::<Entity>(rows.into_values().collect(), &keep_existing_row::<Entity>()).await?;
        Ok(())
    }
}
