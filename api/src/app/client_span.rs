//! Taking in what a client tells of a span.

use std::sync::Arc;

use entity::{
    client_span,
    data_policy::DataClass,
    ids::{ClusterId, SpanId},
    list::CodeStacks,
};

use crate::{
    auth::Viewer,
    clock::Clock,
    domain::client_span::ClientSpanReport,
    store::{AccountStore, Store, StoreError, Write},
};

/// Takes in what clients tell of spans.
#[derive(Clone)]
pub struct ClientSpans {
    store: Store,
    clock: Arc<dyn Clock>,
}

impl ClientSpans {
    /// They go to `store`.
    #[must_use]
    pub fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Stores what a client tells of a span, as far as the account accepts it and unless one did before; the span
    /// itself may be reported later.
    /// Returns whether there is such a cluster.
    ///
    /// # Errors
    /// When the database does not answer; nothing is stored then.
    #[tracing::instrument(name = "app.client_span.record", skip_all, fields(account = viewer.account().slug))]
    pub async fn record(
        &self,
        viewer: &Viewer,
        cluster: ClusterId,
        span: SpanId,
        report: ClientSpanReport,
    ) -> Result<bool, StoreError> {
        let (now, report) = (self.clock.timestamp(), Arc::new(report));
        let write = move |store: AccountStore| -> Write<bool> {
            let report = Arc::clone(&report);
            Box::pin(async move {
                if store.clusters_by_id(&[cluster]).await?.is_empty() {
                    return Ok(false);
                }
                let accepted = store.accepted().await?;
                if !accepted.accepts(DataClass::Tasks) {
                    return Ok(true);
                }
                let with_code = accepted.accepts(DataClass::Code);
                let row = client_span::Model {
                    account_id: store.account_id(),
                    cluster_id: cluster,
                    span_id: span,
                    started_at: report.start.timestamp(),
                    stopped_at: report.stop.timestamp(),
                    code: if with_code { report.stacks() } else { CodeStacks::default() },
                };
                store.record_client_span(row).await?;
                if with_code {
                    let texts: Vec<_> = report.texts().collect();
                    store.record_code(now, texts.iter().map(|(hash, text)| (hash, *text))).await?;
                }
                Ok(true)
            })
        };
        self.store.for_viewer(viewer).write(write).await
    }
}
