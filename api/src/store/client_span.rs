//! What clients tell of spans themselves.

use std::collections::HashMap;

use entity::{
    client_span::{Column, Entity, Model},
    ids::{ClusterId, SpanId},
};

use super::{error::StoreError, one_of::one_of, scoped::AccountStore, upsert::first_wins};
use sea_orm::QueryFilter;

impl AccountStore {
    /// What clients told of the spans among `ids`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.client_span.by_id", skip_all)]
    pub async fn client_spans_by_id(
        &self,
        ids: &[(ClusterId, SpanId)],
    ) -> Result<HashMap<(ClusterId, SpanId), Model>, StoreError> {
        let select = self.select::<Entity>().filter(one_of(Column::ClusterId, Column::SpanId, ids));
        let rows = select.all(&self.reads()).await?;
        Ok(rows.into_iter().map(|row| ((row.cluster_id, row.span_id), row)).collect())
    }

    /// Writes what a client tells of a span, unless one did before. The cluster must exist.
    pub(crate) async fn record_client_span(&self, row: Model) -> Result<(), StoreError> {
        self.insert::<Entity>(vec![row], &first_wins::<Entity>()).await?;
        Ok(())
    }
}
