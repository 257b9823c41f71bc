//! Errors, listed by cluster or by computation.

use std::collections::HashMap;

use entity::{
    error_occurrence::{Column, Entity, Model},
    ids::{ClusterId, ComputationId, ErrorOccurrenceId},
};
use sea_orm::{ColumnTrait, Condition, QueryFilter, QuerySelect};

use super::{
    error::StoreError,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    upsert::first_wins,
};
use crate::domain::{bounded::Text, report::ErrorReport};

/// The orders errors can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorSort {
    /// The error that happened last comes first: its identifier grows with time.
    NewestFirst,
}

impl Sort for ErrorSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "id:desc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::Id]
    }

    fn descending(self) -> bool {
        true
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.id.into()])
    }
}

/// Whose errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorParent {
    /// All of a cluster's.
    Cluster(ClusterId),
    /// Those of a computation.
    Computation(ClusterId, ComputationId),
}

impl ErrorParent {
    fn of(row: (ClusterId, Option<ComputationId>)) -> Self {
        match row {
            (cluster, Some(computation)) => Self::Computation(cluster, computation),
            (cluster, None) => Self::Cluster(cluster),
        }
    }

    fn condition(self) -> Condition {
        match self {
            Self::Cluster(cluster) => Condition::all().add(Column::ClusterId.eq(cluster)),
            Self::Computation(cluster, computation) => {
                Condition::all().add(Column::ClusterId.eq(cluster)).add(Column::ComputationId.eq(computation))
            }
        }
    }
}

impl AccountStore {
    /// The same page of the errors of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.pages", skip_all)]
    pub async fn error_pages(
        &self,
        parents: &[ErrorParent],
        sort: ErrorSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let of = |parent: &ErrorParent| self.select::<Entity>().filter(parent.condition());
        page::fetch_each(&self.reads(), parents.iter().map(of).collect(), sort, request).await
    }

    /// How many errors each parent has; parents without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.counts", skip_all)]
    pub async fn error_counts(
        &self,
        parents: &[ErrorParent],
    ) -> Result<HashMap<ErrorParent, i64>, StoreError> {
        let (clusters, computations): (Vec<ErrorParent>, Vec<ErrorParent>) =
            parents.iter().partition(|parent| matches!(parent, ErrorParent::Cluster(_)));
        let mut counts = HashMap::new();
        if !clusters.is_empty() {
            let rows: Vec<(ClusterId, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(any_of(&clusters))
                .group_by(Column::ClusterId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            counts.extend(rows.into_iter().map(|(cluster, count)| (ErrorParent::of((cluster, None)), count)));
        }
        if !computations.is_empty() {
            let rows: Vec<(ClusterId, Option<ComputationId>, i64)> = self
                .select::<Entity>()
                .select_only()
                .column(Column::ClusterId)
                .column(Column::ComputationId)
                .column_as(Column::Id.count(), "count")
                .filter(any_of(&computations))
                .group_by(Column::ClusterId)
                .group_by(Column::ComputationId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            counts
                .extend(rows.into_iter().map(|(cluster, of, count)| (ErrorParent::of((cluster, of)), count)));
        }
        Ok(counts)
    }

    /// The error with this identifier.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.error_occurrence.get", skip_all)]
    pub async fn error(
        &self,
        cluster: ClusterId,
        id: ErrorOccurrenceId,
    ) -> Result<Option<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster)).filter(Column::Id.eq(id));
        Ok(select.one(&self.reads()).await?)
    }

    /// Writes the errors of a report.
    pub(crate) async fn record_errors(
        &self,
        cluster: ClusterId,
        reports: &[ErrorReport],
    ) -> Result<(), StoreError> {
        let rows = reports.iter().map(|report| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            id: report.id,
            computation_id: report.computation_id,
            task_group_id: report.task_group_id,
            occurred_at: report.at.timestamp(),
            key: report.key.as_str().to_owned(),
            exception_type: report.exception_type.clone().map(Text::into_string),
            message: report.message.as_str().to_owned(),
            traceback: report.traceback.as_str().to_owned(),
            worker: report.worker.clone().map(Text::into_string),
        });
        self.insert::<Entity>(rows.collect(), &first_wins::<Entity>()).await?;
        Ok(())
    }
}

fn any_of(parents: &[ErrorParent]) -> Condition {
    parents.iter().fold(Condition::any(), |any, parent| any.add(parent.condition()))
}
