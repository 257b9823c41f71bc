//! Fine performance metrics: one packed row per span, and one for metrics without a span.

use std::collections::{BTreeMap, HashMap};

use entity::{
    fine_metric::{Column, Entity, Model},
    ids::{ClusterId, SpanId},
    span,
};
use sea_orm::{ColumnTrait, ExprTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select};
use uuid::Uuid;

use crate::{
    blocking_work::run_blocking,
    compression::plain_length,
    domain::{
        fine_metric::{self, CellReader, ReadCellsError, Table},
        report::FineMetricsReport,
    },
    store::{
        clusters::cross_cluster::TimeRange,
        core::{
            composite_in::{IsOneOf, one_of},
            error::StoreError,
            read_rows::ReadSelect,
            scoped::AccountStore,
            upsert::keep_newest_row,
        },
    },
};

/// The largest number of bytes that are unpacked on the request's own thread, which takes less than half a
/// millisecond. Moving fewer bytes to another thread and back is not worth it.
const SMALL: usize = 128 << 10;

/// The span identifier of metrics without a span.
pub(crate) const NO_SPAN: SpanId = SpanId(Uuid::nil());

/// The largest number of identifiers in one statement.
const MAX_IDS: usize = 5_000;

/// The largest number of rows that are read at once.
const MAX_ROWS: u64 = 2_000;

/// The largest number of rows that are read for the clusters of one call.
const MAX_READ: usize = 200_000;

/// The largest number of sums that one call computes.
const MAX_SUMS: usize = 500_000;

/// The columns that are read for sums: the cluster, the span and the packed values.
pub(super) type PackedRow = (ClusterId, SpanId, Vec<u8>);

pub(super) fn select_packed(select: Select<Entity>) -> Select<Entity> {
    select.select_only().columns([Column::ClusterId, Column::SpanId, Column::Cells])
}

/// A row with packed values.
pub(super) trait Packed {
    /// Returns the packed values.
    fn packed(&self) -> &[u8];
}

impl Packed for PackedRow {
    fn packed(&self) -> &[u8] {
        &self.2
    }
}

/// Runs `read` on rows, in another thread if that takes long enough to delay other requests.
pub(super) async fn unpacked<Row: Packed + Send + 'static, T: Send + 'static>(
    rows: Vec<Row>,
    read: impl FnOnce(Vec<Row>) -> Result<T, ReadCellsError> + Send + 'static,
) -> Result<T, ReadCellsError> {
    let lengths = rows.iter().filter_map(|row| plain_length(row.packed()));
    // Damaged rows may state any length.
    let bytes = lengths.fold(0, usize::saturating_add);
    if bytes > SMALL { run_blocking(move || read(rows)).await } else { read(rows) }
}

impl AccountStore {
    /// Returns the sums over each set of spans, in the order of `sets`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.fine_metric.of_spans", skip_all)]
    pub async fn sum_fine_metrics_by_spans(
        &self,
        sets: &[(ClusterId, &[SpanId])],
    ) -> Result<Vec<Table>, StoreError> {
        let all_ids = sets.iter().flat_map(|(cluster, spans)| spans.iter().map(|span| (*cluster, *span)));
        let mut all_ids: Vec<(ClusterId, SpanId)> = all_ids.collect();
        all_ids.sort_unstable();
        all_ids.dedup();
        let (mut labels, mut cells) = (CellReader::default(), HashMap::new());
        for ids in all_ids.chunks(MAX_IDS) {
            let select = select_packed(self.select()).filter(one_of(Column::ClusterId, Column::SpanId, ids));
            let rows: Vec<PackedRow> = select.read_tuples(&self.read_executor()).await?;
            (labels, cells) = unpacked(rows, move |rows| {
                for (cluster, span, packed) in rows {
                    let read = labels.read(&packed, span != NO_SPAN)?;
                    cells.insert((cluster, span), read);
                }
                Ok((labels, cells))
            })
            .await?;
        }
        let sets: Vec<(ClusterId, Vec<SpanId>)> =
            sets.iter().map(|(cluster, spans)| (*cluster, spans.to_vec())).collect();
        run_blocking(move || {
            let (mut tables, mut sums) = (Vec::with_capacity(sets.len()), 0);
            for (cluster, spans) in sets {
                let mut table = Table::default();
                spans
                    .iter()
                    .filter_map(|span| cells.get(&(cluster, *span)))
                    .for_each(|cells| table.add(cells));
                sums += table.len();
                tables.push(table);
                if sums > MAX_SUMS {
                    return Err(ReadCellsError::TooMany.into());
                }
            }
            Ok(tables)
        })
        .await
    }

    /// Returns the sums over all spans of each cluster, and over metrics without a span. Clusters without
    /// any are missing. Only `closed` clusters may have stored sums.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.fine_metric.of_clusters", skip_all)]
    pub async fn sum_fine_metrics_by_cluster(
        &self,
        closed: &[ClusterId],
        open: Vec<ClusterId>,
    ) -> Result<HashMap<ClusterId, Table>, StoreError> {
        let (mut labels, mut tables) = self.fine_metric_totals(closed).await?;
        let mut unsummed = open;
        unsummed.extend(closed.iter().filter(|id| !tables.contains_key(id)));
        if unsummed.is_empty() {
            return Ok(tables);
        }
        let select = select_packed(self.select()).filter(Column::ClusterId.is_one_of(unsummed));
        let select = select.order_by_asc(Column::ClusterId).order_by_asc(Column::SpanId).limit(MAX_ROWS);
        let mut rows: Vec<PackedRow> = select.clone().read_tuples(&self.read_executor()).await?;
        let mut rows_read = 0;
        // The rows are read in parts, because clusters may have many.
        while let Some((cluster, span)) = rows.last().map(|(cluster, span, _)| (*cluster, *span)) {
            let is_last_batch = (rows.len() as u64) < MAX_ROWS;
            rows_read += rows.len();
            if rows_read > MAX_READ {
                return Err(StoreError::TooLarge("the clusters have too many spans: request fewer clusters"));
            }
            (labels, tables) = unpacked(rows, move |rows| {
                for (cluster, span, packed) in rows {
                    let cells = labels.read(&packed, span != NO_SPAN)?;
                    tables.entry(cluster).or_default().add(&cells);
                }
                Ok((labels, tables))
            })
            .await?;
            if is_last_batch {
                break;
            }
            let same_cluster = Column::ClusterId.eq(cluster).and(Column::SpanId.gt(span));
            let is_after = Column::ClusterId.gt(cluster).or(same_cluster);
            rows = select.clone().filter(is_after).read_tuples(&self.read_executor()).await?;
        }
        Ok(tables)
    }

    /// Returns the packed metrics of a cluster's spans in the order of their identifiers: at most `limit`
    /// that follow `after`. [`NO_SPAN`] comes before all others. With a period, only of spans whose first
    /// tasks arrived in it.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.fine_metric.packed", skip_all)]
    pub(crate) async fn packed_fine_metrics(
        &self,
        cluster: ClusterId,
        enqueued_in: TimeRange,
        after: Option<SpanId>,
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let mut select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        if let Some(after) = after {
            select = select.filter(Column::SpanId.gt(after));
        }
        if enqueued_in != (None, None) {
            let spans = self
                .select_in_range::<span::Entity>(span::Column::EnqueuedAt, enqueued_in)
                .filter(span::Column::ClusterId.eq(cluster))
                .select_only()
                .column(span::Column::Id);
            select = select.filter(Column::SpanId.in_subquery(spans.into_query()));
        }
        Ok(select.order_by_asc(Column::SpanId).limit(limit).read_models(&self.read_executor()).await?)
    }

    /// Writes the fine metrics of a report.
    pub(crate) async fn record_fine_metrics(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[FineMetricsReport],
    ) -> Result<(), StoreError> {
        // Sorted by identifier: a statement must not write a row twice, and locks must be taken in one order.
        let reports: BTreeMap<SpanId, _> =
            reports.iter().map(|report| (report.span_id.unwrap_or(NO_SPAN), report)).collect();
        let rows = reports.into_iter().map(|(span_id, report)| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            span_id,
            sequence,
            cells: fine_metric::pack(&report.cells),
        });
        self.insert::<Entity>(rows.collect(), &keep_newest_row::<Entity>(Column::Sequence)).await?;
        Ok(())
    }
}

impl From<ReadCellsError> for StoreError {
    fn from(unreadable: ReadCellsError) -> Self {
        match unreadable {
            ReadCellsError::Damaged => Self::damaged(&unreadable),
            ReadCellsError::TooMany => Self::TooLarge(
                "too many functions and activities of fine metrics for one response: request fewer clusters \
                 or spans, or 'inclusive: false'",
            ),
        }
    }
}
