//! Batch loaders for spans: each reads the data that several spans of one request need in few statements.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use async_graphql::dataloader::Loader;
use entity::{
    client_span, cluster, code_snippet,
    ids::{ClusterId, SpanId},
    span,
};

use crate::{
    domain::{
        fine_metric::Table,
        span::{Spans, Totals},
    },
    graphql::engine::loaders::{ParentList, StoreReader},
    store::{
        AccountStore, SpanParent, SpanSort, StoreError,
        core::page::{Page, PageRequest},
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

impl Loader<(ClusterId, SpanId)> for StoreReader {
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

/// The loader key of a span and its descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SubtreeKey(pub(crate) ClusterId, pub(crate) SpanId);

impl Loader<SubtreeKey> for StoreReader {
    type Value = Arc<Spans>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[SubtreeKey]) -> Result<HashMap<SubtreeKey, Arc<Spans>>, Self::Error> {
        let roots: Vec<_> = keys.iter().map(|SubtreeKey(cluster, span)| (*cluster, *span)).collect();
        let found = self.0.span_subtrees(&roots).await?;
        Ok(found
            .into_iter()
            .map(|((cluster, id), spans)| (SubtreeKey(cluster, id), Arc::new(spans)))
            .collect())
    }
}

/// The loader key of all spans of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AllSpansKey(pub(crate) ClusterId);

impl Loader<AllSpansKey> for StoreReader {
    type Value = Arc<Spans>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[AllSpansKey]) -> Result<HashMap<AllSpansKey, Arc<Spans>>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.spans_of_clusters(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, spans)| (AllSpansKey(cluster), Arc::new(spans))).collect())
    }
}

/// A set of spans of a cluster that are summed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpanSet {
    pub(crate) cluster: ClusterId,
    spans: Arc<[SpanId]>,
}

impl SpanSet {
    pub(crate) fn new(cluster: ClusterId, spans: &Spans) -> Self {
        Self { cluster, spans: spans.ids().collect() }
    }
}

/// The loader key of the sums over the task groups of a set of spans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpanTotalsKey(pub(crate) SpanSet);

impl Loader<SpanTotalsKey> for StoreReader {
    type Value = Totals;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[SpanTotalsKey]) -> Result<HashMap<SpanTotalsKey, Totals>, Self::Error> {
        let span_keys = |set: &SpanSet| {
            let cluster = set.cluster;
            set.spans.iter().map(move |span| (cluster, *span)).collect::<Vec<_>>()
        };
        let all_keys: BTreeSet<(ClusterId, SpanId)> = keys.iter().flat_map(|key| span_keys(&key.0)).collect();
        let found = self.0.span_totals(&Vec::from_iter(all_keys)).await?;
        let sum = |set: &SpanSet| span_keys(set).iter().filter_map(|span| found.get(span).copied()).sum();
        Ok(keys.iter().map(|key| (key.clone(), sum(&key.0))).collect())
    }
}

/// The loader key of the fine metrics of a set of spans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpanFineMetricsKey(pub(crate) SpanSet);

impl Loader<SpanFineMetricsKey> for StoreReader {
    type Value = Arc<Table>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[SpanFineMetricsKey],
    ) -> Result<HashMap<SpanFineMetricsKey, Arc<Table>>, Self::Error> {
        let sets: Vec<_> = keys.iter().map(|key| (key.0.cluster, &*key.0.spans)).collect();
        let tables = self.0.sum_fine_metrics_by_spans(&sets).await?;
        Ok(keys.iter().cloned().zip(tables.into_iter().map(Arc::new)).collect())
    }
}

/// The loader key of all fine metrics of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClusterFineMetricsKey {
    cluster: ClusterId,
    /// True if the sums may be stored.
    is_closed: bool,
}

impl From<&cluster::Model> for ClusterFineMetricsKey {
    fn from(row: &cluster::Model) -> Self {
        Self { cluster: row.id, is_closed: row.closed_at.is_some() }
    }
}

impl Loader<ClusterFineMetricsKey> for StoreReader {
    type Value = Arc<Table>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ClusterFineMetricsKey],
    ) -> Result<HashMap<ClusterFineMetricsKey, Arc<Table>>, Self::Error> {
        // One request may have read a cluster before and after it closed, and its metrics are summed once.
        let closed: BTreeSet<ClusterId> =
            keys.iter().filter(|key| key.is_closed).map(|key| key.cluster).collect();
        let all: BTreeSet<ClusterId> = keys.iter().map(|key| key.cluster).collect();
        let open = all.difference(&closed).copied().collect();
        let found = self.0.sum_fine_metrics_by_cluster(&Vec::from_iter(closed), open).await?;
        let found: HashMap<_, _> = found.into_iter().map(|(id, table)| (id, Arc::new(table))).collect();
        Ok(keys.iter().filter_map(|key| Some((*key, Arc::clone(found.get(&key.cluster)?)))).collect())
    }
}

/// The loader key of a cluster's number of threads over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadHistoryKey(pub(crate) ClusterId);

impl Loader<ThreadHistoryKey> for StoreReader {
    type Value = Arc<[(i64, i64)]>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[ThreadHistoryKey],
    ) -> Result<HashMap<ThreadHistoryKey, Self::Value>, Self::Error> {
        let clusters: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.threads_over_time(&clusters).await?;
        Ok(found.into_iter().map(|(cluster, threads)| (ThreadHistoryKey(cluster), threads.into())).collect())
    }
}

/// The loader key of a code snippet: the hash of its text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SnippetKey(pub(crate) String);

impl Loader<SnippetKey> for StoreReader {
    type Value = Arc<code_snippet::Model>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[SnippetKey]) -> Result<HashMap<SnippetKey, Self::Value>, Self::Error> {
        let hashes: Vec<String> = keys.iter().map(|key| key.0.clone()).collect();
        let rows = self.0.snippets_by_hash(&hashes).await?;
        Ok(rows.into_iter().map(|row| (SnippetKey(row.hash.clone()), Arc::new(row))).collect())
    }
}

/// The loader key of a client's report about a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientSpanKey(pub(crate) ClusterId, pub(crate) SpanId);

impl Loader<ClientSpanKey> for StoreReader {
    type Value = client_span::Model;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ClientSpanKey]) -> Result<HashMap<ClientSpanKey, Self::Value>, Self::Error> {
        let ids: Vec<_> = keys.iter().map(|ClientSpanKey(cluster, span)| (*cluster, *span)).collect();
        let found = self.0.client_spans_by_id(&ids).await?;
        Ok(found.into_iter().map(|((cluster, span), row)| (ClientSpanKey(cluster, span), row)).collect())
    }
}
