//! What several spans of one request ask for, read in few statements.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use async_graphql::dataloader::Loader;
use entity::{
    client_span, code_snippet,
    ids::{ClusterId, SpanId},
    span,
};

use super::loaders::{ParentList, Reader};
use crate::{
    domain::{
        fine_metric::Table,
        span::{Spans, Totals},
    },
    store::{
        AccountStore, SpanParent, SpanSort, StoreError,
        page::{Page, PageRequest},
    },
};

impl ParentList<SpanParent, SpanSort> for AccountStore {
    type Row = span::Model;

    async fn pages(
        &self,
        parents: &[SpanParent],
        sort: SpanSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Self::Row>>, StoreError> {
        self.span_pages(parents, sort, request).await
    }

    async fn counts(&self, parents: &[SpanParent]) -> Result<HashMap<SpanParent, i64>, StoreError> {
        self.span_counts(parents).await
    }
}

impl Loader<(ClusterId, SpanId)> for Reader {
    type Value = span::Model;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[(ClusterId, SpanId)],
    ) -> Result<HashMap<(ClusterId, SpanId), span::Model>, Self::Error> {
        let rows = self.0.spans_by_id(keys).await?;
        Ok(rows.into_iter().map(|row| ((row.cluster_id, row.id), row)).collect())
    }
}

/// The key of a span with all spans below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SubtreeOf(pub(super) ClusterId, pub(super) SpanId);

impl Loader<SubtreeOf> for Reader {
    type Value = Arc<Spans>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[SubtreeOf]) -> Result<HashMap<SubtreeOf, Arc<Spans>>, Self::Error> {
        let roots: Vec<_> = keys.iter().map(|SubtreeOf(cluster, span)| (*cluster, *span)).collect();
        let found = self.0.span_subtrees(&roots).await?;
        Ok(found
            .into_iter()
            .map(|((cluster, id), spans)| (SubtreeOf(cluster, id), Arc::new(spans)))
            .collect())
    }
}

/// The key of all spans of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AllSpansOf(pub(super) ClusterId);

impl Loader<AllSpansOf> for Reader {
    type Value = Arc<Spans>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[AllSpansOf]) -> Result<HashMap<AllSpansOf, Arc<Spans>>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.spans_of_clusters(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, spans)| (AllSpansOf(cluster), Arc::new(spans))).collect())
    }
}

/// Some spans of a cluster that are summed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SpanSet {
    pub(super) cluster: ClusterId,
    spans: Arc<[SpanId]>,
}

impl SpanSet {
    pub(super) fn new(cluster: ClusterId, spans: &Spans) -> Self {
        Self { cluster, spans: spans.ids().collect() }
    }
}

/// The key of sums over the task groups of some spans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TotalsOf(pub(super) SpanSet);

impl Loader<TotalsOf> for Reader {
    type Value = Totals;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[TotalsOf]) -> Result<HashMap<TotalsOf, Totals>, Self::Error> {
        let of = |set: &SpanSet| {
            let cluster = set.cluster;
            set.spans.iter().map(move |span| (cluster, *span)).collect::<Vec<_>>()
        };
        let all: BTreeSet<(ClusterId, SpanId)> = keys.iter().flat_map(|key| of(&key.0)).collect();
        let found = self.0.span_totals(&Vec::from_iter(all)).await?;
        let sum = |set: &SpanSet| of(set).iter().filter_map(|span| found.get(span).copied()).sum();
        Ok(keys.iter().map(|key| (key.clone(), sum(&key.0))).collect())
    }
}

/// The key of the fine metrics of some spans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FineMetricsOf(pub(super) SpanSet);

impl Loader<FineMetricsOf> for Reader {
    type Value = Arc<Table>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[FineMetricsOf]) -> Result<HashMap<FineMetricsOf, Arc<Table>>, Self::Error> {
        let sets: Vec<_> = keys.iter().map(|key| (key.0.cluster, &*key.0.spans)).collect();
        let tables = self.0.fine_metrics_of_spans(&sets).await?;
        Ok(keys.iter().cloned().zip(tables.into_iter().map(Arc::new)).collect())
    }
}

/// The key of all fine metrics of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClusterFineMetrics(pub(super) ClusterId);

impl Loader<ClusterFineMetrics> for Reader {
    type Value = Arc<Table>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ClusterFineMetrics],
    ) -> Result<HashMap<ClusterFineMetrics, Arc<Table>>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.fine_metrics_of_clusters(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, table)| (ClusterFineMetrics(cluster), Arc::new(table))).collect())
    }
}

/// The key of how many threads a cluster had since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ThreadsOf(pub(super) ClusterId);

impl Loader<ThreadsOf> for Reader {
    type Value = Arc<[(i64, i64)]>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ThreadsOf]) -> Result<HashMap<ThreadsOf, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.threads_over_time(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, threads)| (ThreadsOf(cluster), threads.into())).collect())
    }
}

/// The key of a snippet: the hash of its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SnippetOf(pub(super) String);

impl Loader<SnippetOf> for Reader {
    type Value = Arc<code_snippet::Model>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[SnippetOf]) -> Result<HashMap<SnippetOf, Self::Value>, Self::Error> {
        let hashes: Vec<String> = keys.iter().map(|key| key.0.clone()).collect();
        let rows = self.0.snippets_by_hash(&hashes).await?;
        Ok(rows.into_iter().map(|row| (SnippetOf(row.hash.clone()), Arc::new(row))).collect())
    }
}

/// The key of what a client told of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientSpanOf(pub(super) ClusterId, pub(super) SpanId);

impl Loader<ClientSpanOf> for Reader {
    type Value = client_span::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ClientSpanOf]) -> Result<HashMap<ClientSpanOf, Self::Value>, Self::Error> {
        let ids: Vec<_> = keys.iter().map(|ClientSpanOf(cluster, span)| (*cluster, *span)).collect();
        let found = self.0.client_spans_by_id(&ids).await?;
        Ok(found.into_iter().map(|((cluster, span), row)| (ClientSpanOf(cluster, span), row)).collect())
    }
}
