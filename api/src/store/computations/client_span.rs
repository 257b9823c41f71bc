//! Spans as their clients report them.

use std::collections::HashMap;

use entity::{
    client_span::{Column, Entity, Model},
    ids::{ClusterId, SpanId},
};

use crate::store::core::{
    composite_in::one_of, error::StoreError, scoped::AccountStore, upsert::keep_existing_row,
};
use sea_orm::QueryFilter;

impl AccountStore {
    /// Returns the client reports of the spans among `ids`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.client_span.by_id", skip_all)]
    pub async fn client_spans_by_id(
        &self,
        ids: &[(ClusterId, SpanId)],
    ) -> Result<HashMap<(ClusterId, SpanId), Model>, StoreError> {
        let select = self.select::<Entity>().filter(one_of(Column::ClusterId, Column::SpanId, ids));
        let rows = select.all(&self.read_executor()).await?;
        Ok(rows.into_iter().map(|row| ((row.cluster_id, row.span_id), row)).collect())
    }

    /// Writes a client's report of a span. Returns false if there is one. The cluster must exist.
    pub(crate) async fn record_client_span(&self, row: Model) -> Result<bool, StoreError> {
        Ok(self.insert::<Entity>(vec![row], &keep_existing_row::<Entity>()).await? == 1)
    }
}
