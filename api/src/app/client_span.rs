//! Storing a client's report about a span.
//!
//! An exceeded quota is no error here, and neither is a refused data class: an error would raise an
//! exception in the user's program after its work was done.

use std::sync::Arc;

use entity::{
    client_span,
    data_policy::DataClass,
    ids::{ClusterId, SpanId},
    json_columns::CodeStacks,
};

use super::{
    Quotas,
    report::{ClusterRefusal, Reporter},
};
use crate::{
    auth::Viewer,
    clock::Clock,
    domain::{client_span::ClientSpanReport, section_bytes::SectionBytes},
    store::{AccountStore, Store, StoreError, Write},
};

/// The ingest of client reports about spans.
#[derive(Clone)]
pub struct ClientSpans {
    store: Store,
    clock: Arc<dyn Clock>,
    quotas: Quotas,
}

/// The reason why a client's report is not stored.
#[derive(Debug, thiserror::Error)]
pub enum ClientSpanError {
    /// The cluster does not exist.
    #[error("there is no such cluster")]
    NoCluster,
    /// The cluster accepts no reports from this caller.
    #[error(transparent)]
    Cluster(#[from] ClusterRefusal),
    /// The database failed. Nothing is stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ClientSpans {
    /// Returns the ingest into `store`.
    #[must_use]
    pub fn new(store: Store, clock: Arc<dyn Clock>, quotas: Quotas) -> Self {
        Self { store, clock, quotas }
    }

    /// Stores a client's report about a span with data of this size, limited to the data classes the
    /// account accepts. The first report wins. The span itself may be reported later. Nothing is stored
    /// if the account has used up a quota.
    ///
    /// # Errors
    /// Returns [`ClientSpanError`]. Nothing is stored then.
    #[tracing::instrument(name = "app.client_span.record", skip_all, fields(account = viewer.account().slug))]
    pub async fn record(
        &self,
        viewer: &Viewer,
        cluster: ClusterId,
        span: SpanId,
        report: ClientSpanReport,
        bytes: SectionBytes,
    ) -> Result<(), ClientSpanError> {
        let is_exceeded = self.quotas.load_usage(viewer).await?.exceeded().is_some();
        let (now, report, reporter) = (self.clock.timestamp(), Arc::new(report), Reporter::of(viewer));
        let write = move |store: AccountStore| -> Write<Result<i64, ClientSpanError>> {
            let report = Arc::clone(&report);
            Box::pin(async move {
                // The lock keeps the cluster from being hidden before its data is counted.
                let Some((row, None)) = store.lock_with_removal(cluster).await? else {
                    return Ok(Err(ClientSpanError::NoCluster));
                };
                if let Err(refusal) = reporter.check_owner(row.user_id) {
                    return Ok(Err(refusal.into()));
                }
                let accepted = store.accepted().await?;
                if is_exceeded || !accepted.accepts(DataClass::Tasks) {
                    return Ok(Ok(0));
                }
                let accepts_code = accepted.accepts(DataClass::Code);
                let row = client_span::Model {
                    account_id: store.account_id(),
                    cluster_id: cluster,
                    span_id: span,
                    started_at: report.start.timestamp(),
                    stopped_at: report.stop.timestamp(),
                    code: if accepts_code { report.stacks() } else { CodeStacks::default() },
                };
                if !store.record_client_span(row).await? {
                    return Ok(Ok(0));
                }
                if accepts_code {
                    let texts: Vec<_> = report.texts().collect();
                    store.record_code(now, texts.iter().map(|(hash, text)| (hash, *text))).await?;
                }
                let bytes = bytes.accepted(&accepted);
                store.record_ingest(Some(cluster), now, bytes, 0).await?;
                Ok(Ok(bytes.total()))
            })
        };
        let stored = self.store.for_viewer(viewer).write(write).await??;
        self.quotas.add(viewer, stored, 0);
        Ok(())
    }
}
