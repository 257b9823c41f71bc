//! Fine performance metrics: one packed row per span, and one for what belongs to none.

use std::collections::{BTreeMap, HashMap};

use entity::{
    fine_metric::{Column, Entity, Model},
    ids::{ClusterId, SpanId},
};
use sea_orm::{ColumnTrait, ExprTrait, QueryFilter, QueryOrder, QuerySelect, Select};
use uuid::Uuid;

use super::{error::StoreError, one_of::one_of, scoped::AccountStore, upsert::newest_wins};
use crate::{
    blocking::blocking,
    compression::plain_length,
    domain::{
        fine_metric::{self, Labels, Table, Unreadable},
        report::FineMetricsReport,
    },
};

/// Bytes that are read where requests are answered: it takes less than half a millisecond. The way to another thread and back is
/// not worth it for fewer.
const SMALL: usize = 128 << 10;

/// Stands for the spans of what has none.
pub(crate) const NO_SPAN: SpanId = SpanId(Uuid::nil());

/// Identifiers in one statement at the most.
const MAX_IDS: usize = 5_000;

/// Rows that are read at once at the most.
const MAX_ROWS: u64 = 2_000;

/// Rows of clusters that are read for one statement's worth of clusters at the most.
const MAX_READ: usize = 200_000;

/// Sums that are made together at the most.
const MAX_SUMS: usize = 500_000;

/// What is read to sum: whose values they are, and the values.
type Packed = (ClusterId, SpanId, Vec<u8>);

fn packed(select: Select<Entity>) -> Select<Entity> {
    select.select_only().columns([Column::ClusterId, Column::SpanId, Column::Cells])
}

/// What `read` makes of rows, in another thread if that takes long enough to be felt by others.
async fn unpacked<T: Send + 'static>(
    rows: Vec<Packed>,
    read: impl FnOnce(Vec<Packed>) -> Result<T, Unreadable> + Send + 'static,
) -> Result<T, Unreadable> {
    let lengths = rows.iter().filter_map(|(.., packed)| plain_length(packed));
    // Damaged rows may say anything of themselves.
    let bytes = lengths.fold(0, usize::saturating_add);
    if bytes > SMALL { blocking(move || read(rows)).await } else { read(rows) }
}

impl AccountStore {
    /// The sums over each set of spans, in the order of `sets`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.fine_metric.of_spans", skip_all)]
    pub async fn fine_metrics_of_spans(
        &self,
        sets: &[(ClusterId, &[SpanId])],
    ) -> Result<Vec<Table>, StoreError> {
        let all = sets.iter().flat_map(|(cluster, spans)| spans.iter().map(|span| (*cluster, *span)));
        let mut all: Vec<(ClusterId, SpanId)> = all.collect();
        all.sort_unstable();
        all.dedup();
        let (mut labels, mut cells) = (Labels::default(), HashMap::new());
        for ids in all.chunks(MAX_IDS) {
            let select = packed(self.select()).filter(one_of(Column::ClusterId, Column::SpanId, ids));
            let rows: Vec<Packed> = select.into_tuple().all(&self.reads()).await?;
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
        blocking(move || {
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
                    return Err(Unreadable::TooMany.into());
                }
            }
            Ok(tables)
        })
        .await
    }

    /// The sums over all spans of each cluster and what belongs to none; clusters without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.fine_metric.of_clusters", skip_all)]
    pub async fn fine_metrics_of_clusters(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Table>, StoreError> {
        let select = packed(self.select()).filter(Column::ClusterId.is_in(clusters.iter().copied()));
        let select = select.order_by_asc(Column::ClusterId).order_by_asc(Column::SpanId).limit(MAX_ROWS);
        let (mut labels, mut found) = (Labels::default(), HashMap::<ClusterId, Table>::new());
        let mut rows: Vec<Packed> = select.clone().into_tuple().all(&self.reads()).await?;
        let mut read = 0;
        // In parts: all rows of clusters may be many.
        while let Some((cluster, span)) = rows.last().map(|(cluster, span, _)| (*cluster, *span)) {
            let whole = (rows.len() as u64) < MAX_ROWS;
            read += rows.len();
            if read > MAX_READ {
                return Err(StoreError::TooMuch("the clusters have too many spans: ask for fewer clusters"));
            }
            (labels, found) = unpacked(rows, move |rows| {
                for (cluster, span, packed) in rows {
                    let cells = labels.read(&packed, span != NO_SPAN)?;
                    found.entry(cluster).or_default().add(&cells);
                }
                Ok((labels, found))
            })
            .await?;
            if whole {
                break;
            }
            let same_cluster = Column::ClusterId.eq(cluster).and(Column::SpanId.gt(span));
            let after = Column::ClusterId.gt(cluster).or(same_cluster);
            rows = select.clone().filter(after).into_tuple().all(&self.reads()).await?;
        }
        Ok(found)
    }

    /// What was packed of some spans of a cluster, in the order of their identifiers: `most` of those that follow `after`,
    /// [`NO_SPAN`] before all others.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.fine_metric.packed", skip_all)]
    pub(crate) async fn packed_fine_metrics(
        &self,
        cluster: ClusterId,
        after: Option<SpanId>,
        most: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.eq(cluster));
        let select = match after {
            Some(after) => select.filter(Column::SpanId.gt(after)),
            None => select,
        };
        Ok(select.order_by_asc(Column::SpanId).limit(most).all(&self.reads()).await?)
    }

    /// Writes what a report says of fine metrics.
    pub(crate) async fn record_fine_metrics(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[FineMetricsReport],
    ) -> Result<(), StoreError> {
        // By identifier: a statement must not meet a row twice, and transactions must lock in one order.
        let reports: BTreeMap<SpanId, _> =
            reports.iter().map(|report| (report.span_id.unwrap_or(NO_SPAN), report)).collect();
        let rows = reports.into_iter().map(|(span_id, report)| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            span_id,
            sequence,
            cells: fine_metric::pack(&report.cells),
        });
        self.insert::<Entity>(rows.collect(), &newest_wins::<Entity>(Column::Sequence)).await?;
        Ok(())
    }
}

impl From<Unreadable> for StoreError {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Damaged => Self::damaged(&unreadable),
            Unreadable::TooMany => Self::TooMuch(
                "the fine metrics of so many functions and activities are too much for one answer: ask for fewer \
                 clusters or spans, or with 'inclusive: false'",
            ),
        }
    }
}
