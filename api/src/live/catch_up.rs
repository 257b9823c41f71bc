//! The catch-up: reads arrivals in batches. Each batch is one payload, with the position that its reader
//! reaches.

use std::collections::VecDeque;

use entity::{
    cluster, computation, error_occurrence, event,
    ids::{AlertId, ClusterId, ErrorGroupId, KeyTime},
    log_line,
};
use uuid::Uuid;

use crate::{
    domain::stream_cursor::{PartialArrival, Position},
    graphql::{RowSelection, Rows},
    store::{AccountStore, ChangedRow, ClusterFilter, PendingChanges, StoreError},
};

/// The maximum number of clusters in one statement.
const MAX_CLUSTERS: usize = 100;

/// The maximum number of rows in one payload.
const MAX_ROWS: usize = 100;

/// The maximum number of rows in one statement whose rows are then searched for a text. The search removes
/// some of them.
const MAX_SCANNED_ROWS: usize = 500;

/// The arrivals to read, and the position of the arrivals already read.
pub(super) struct CatchUp {
    arrivals: VecDeque<PendingChanges>,
    /// The rows of the account to read. A stream of such rows has no arrivals of clusters.
    rows: VecDeque<ChangedRow>,
    position: Position,
}

/// The rows of one payload.
#[derive(Clone)]
pub(super) struct Batch {
    pub(super) rows: Rows,
    /// The cluster whose newest state the batch is. None for all other rows: added rows, snapshots, alerts
    /// and error groups.
    pub(super) cluster: Option<ClusterId>,
    /// The position of a reader that has taken this payload.
    pub(super) position: Position,
}

impl CatchUp {
    /// Starts reading these arrivals for a reader at `position`.
    pub(super) fn new(arrivals: impl IntoIterator<Item = PendingChanges>, position: Position) -> Self {
        let mut catch_up = Self { arrivals: arrivals.into_iter().collect(), rows: VecDeque::new(), position };
        catch_up.move_partial_to_front();
        catch_up
    }

    /// Starts reading these rows of the account for a reader at `position`.
    pub(super) fn of_rows(rows: impl IntoIterator<Item = ChangedRow>, position: Position) -> Self {
        Self { arrivals: VecDeque::new(), rows: rows.into_iter().collect(), position }
    }

    /// Returns the position up to which all returned rows reach.
    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    /// Returns the next batches, possibly none. Returns `None` when everything is read. Cancel-safe: a
    /// dropped call loses nothing.
    pub(super) async fn next(
        &mut self,
        selection: &RowSelection,
        store: &AccountStore,
    ) -> Result<Option<Vec<Batch>>, StoreError> {
        let is_partial = self.arrivals.front().is_some_and(|arrivals| arrivals.part.is_some());
        let count = if is_partial { 1 } else { self.arrivals.len().min(MAX_CLUSTERS) };
        if count == 0 && self.rows.is_empty() {
            return Ok(None);
        }
        let pending_changes: Vec<PendingChanges> = self.arrivals.range(..count).copied().collect();
        let batches = match selection {
            RowSelection::Clusters(filter) => {
                let rows = self.read_states(filter, &pending_changes, store).await?;
                let to_batch = |(row, passes): (cluster::Model, bool)| {
                    self.create_batch(Some(row.id), Rows::Cluster(Box::new(row), passes))
                };
                rows.into_iter().map(to_batch).collect()
            }
            RowSelection::Snapshots(filter) => {
                let rows = self.read_states(filter, &pending_changes, store).await?.into_iter();
                let rows: Vec<_> = rows.filter_map(|(row, passes)| passes.then_some(row)).collect();
                let snapshot = (!rows.is_empty()).then_some(rows);
                snapshot.into_iter().map(|rows| self.create_batch(None, Rows::Clusters(rows))).collect()
            }
            RowSelection::Computations(filter) => {
                let rows = store.arrived_computations(filter, &pending_changes, MAX_ROWS as u64).await?;
                self.advance_past(pending_changes, rows, MAX_ROWS, Rows::Computations, |_| true)
            }
            RowSelection::Errors(filter, search_text) => {
                let limit = if search_text.is_some() { MAX_SCANNED_ROWS } else { MAX_ROWS };
                let rows = store.arrived_errors(filter, &pending_changes, limit as u64).await?;
                let matches = |row: &_| {
                    search_text.as_ref().is_none_or(|search_text| store.error_contains(row, search_text))
                };
                self.advance_past(pending_changes, rows, limit, Rows::Errors, matches)
            }
            RowSelection::Events(filter) => {
                let rows = store.arrived_events(filter, &pending_changes, MAX_ROWS as u64).await?;
                self.advance_past(pending_changes, rows, MAX_ROWS, Rows::Events, |_| true)
            }
            RowSelection::Logs(filter, search_text) => {
                let limit = if search_text.is_some() { MAX_SCANNED_ROWS } else { MAX_ROWS };
                let rows = store.arrived_logs(filter, &pending_changes, limit as u64).await?;
                let matches = |row: &_| {
                    search_text.as_ref().is_none_or(|search_text| store.log_contains(row, search_text))
                };
                self.advance_past(pending_changes, rows, limit, Rows::Logs, matches)
            }
            RowSelection::Alerts => {
                let rows = store.alerts_by_id(&self.next_rows(AlertId)).await?;
                self.advance_past_rows((!rows.is_empty()).then_some(Rows::Alerts(rows)))
            }
            RowSelection::ErrorGroups(filter) => {
                let (rows, unmatched) =
                    store.match_error_groups(filter, &self.next_rows(ErrorGroupId)).await?;
                let has_changes = !rows.is_empty() || !unmatched.is_empty();
                self.advance_past_rows(has_changes.then_some(Rows::ErrorGroups(rows, unmatched)))
            }
        };
        Ok(Some(batches))
    }

    /// Reads the current state of the clusters of some arrivals, which completes those arrivals.
    async fn read_states(
        &mut self,
        filter: &ClusterFilter,
        pending_changes: &[PendingChanges],
        store: &AccountStore,
    ) -> Result<Vec<(cluster::Model, bool)>, StoreError> {
        let ids: Vec<ClusterId> = pending_changes.iter().map(|arrivals| arrivals.cluster).collect();
        let mut rows = store.match_clusters(filter, &ids).await?;
        rows.sort_by_key(|(row, _)| (row.changed_at, row.id));
        self.arrivals.drain(..pending_changes.len());
        Ok(rows)
    }

    /// Returns the identifiers of the next rows of the account.
    fn next_rows<Id>(&self, id: impl Fn(Uuid) -> Id) -> Vec<Id> {
        self.rows.iter().take(MAX_ROWS).map(|row| id(row.id)).collect()
    }

    /// Advances the position past the next rows of the account, and creates a batch of those that were found.
    fn advance_past_rows(&mut self, found: Option<Rows>) -> Vec<Batch> {
        for row in self.rows.drain(..self.rows.len().min(MAX_ROWS)) {
            self.position.mark_read(row.id, row.changed_at);
        }
        found.into_iter().map(|rows| self.create_batch(None, rows)).collect()
    }

    fn create_batch(&self, cluster: Option<ClusterId>, rows: Rows) -> Batch {
        Batch { rows, cluster, position: self.position.clone() }
    }

    /// Advances the position past rows of the first arrivals, read with this `limit`, and creates batches
    /// of the rows that `matches` accepts.
    fn advance_past<Row: ArrivedRow>(
        &mut self,
        mut pending_changes: Vec<PendingChanges>,
        rows: Vec<Row>,
        limit: usize,
        to_rows: impl Fn(Vec<Row>) -> Rows,
        matches: impl Fn(&Row) -> bool,
    ) -> Vec<Batch> {
        self.arrivals.drain(..pending_changes.len());
        let next_arrival = rows.last().map(Row::arrival_part).filter(|_| rows.len() >= limit);
        let mut matching_rows: VecDeque<Row> = rows.into_iter().filter(matches).collect();
        let mut batches = Vec::new();
        while matching_rows.len() > MAX_ROWS {
            let rows: Vec<Row> = matching_rows.drain(..MAX_ROWS).collect();
            if let Some(last) = rows.last() {
                self.advance_to(&mut pending_changes, last.arrival_part());
            }
            batches.push(Batch { rows: to_rows(rows), cluster: None, position: self.position.clone() });
        }
        match next_arrival {
            Some(last) => self.advance_to(&mut pending_changes, last),
            None => {
                for PendingChanges { cluster, until, .. } in pending_changes.drain(..) {
                    self.position.mark_read(cluster, until);
                }
            }
        }
        if !matching_rows.is_empty() {
            let rows = to_rows(matching_rows.into());
            batches.push(Batch { rows, cluster: None, position: self.position.clone() });
        }
        for arrivals in pending_changes.into_iter().rev() {
            self.arrivals.push_front(arrivals);
        }
        self.move_partial_to_front();
        batches
    }

    /// Advances the position to a row, in the order of arrival, cluster and row.
    fn advance_to(&mut self, pending_changes: &mut Vec<PendingChanges>, last: PartialArrival) {
        for arrivals in pending_changes.iter_mut() {
            let read_up_to = if arrivals.cluster < last.cluster { last.arrival } else { last.arrival - 1 };
            let read_up_to = read_up_to.min(arrivals.until);
            if read_up_to > arrivals.after {
                arrivals.after = read_up_to;
                self.position.mark_read(arrivals.cluster, read_up_to);
            }
            if arrivals.part.is_some_and(|part| part.arrival <= read_up_to) {
                arrivals.part = None;
            }
            if arrivals.cluster == last.cluster {
                arrivals.part = Some(last);
            }
        }
        self.position.mark_row_read(last);
        pending_changes.retain(|arrivals| arrivals.after < arrivals.until);
    }

    /// Moves a partly read arrival to the front. `next` reads it alone, because a position can record only
    /// one partly read arrival.
    fn move_partial_to_front(&mut self) {
        if let Some(index) = self.arrivals.iter().position(|arrivals| arrivals.part.is_some()) {
            self.arrivals.swap(0, index);
        }
    }
}

/// A row with its place in the order of arrival.
trait ArrivedRow {
    /// Returns the row's place in the order of arrival.
    fn arrival_part(&self) -> PartialArrival;
}

macro_rules! impl_arrived_row {
    ($($module:ident: $time:ident),+) => {$(
        impl ArrivedRow for $module::Model {
            fn arrival_part(&self) -> PartialArrival {
                let at = KeyTime::from(self.$time).0;
                PartialArrival { cluster: self.cluster_id, arrival: self.arrived_at, at, id: self.id.0 }
            }
        }
    )+};
}
impl_arrived_row!(
    computation: started_at,
    error_occurrence: occurred_at,
    event: occurred_at,
    log_line: logged_at
);

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// A row: its arrival number, its cluster and its number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Row(i64, i64, u128);

    impl ArrivedRow for Row {
        fn arrival_part(&self) -> PartialArrival {
            let Self(arrival, cluster, number) = *self;
            PartialArrival { cluster: ClusterId(cluster), arrival, at: 0, id: Uuid::from_u128(number) }
        }
    }

    fn arrivals(position: &Position, clusters: &[(i64, i64)]) -> Vec<PendingChanges> {
        let to_pending = |(cluster, until): &(i64, i64)| {
            let cluster = ClusterId(*cluster);
            let part = position.part().filter(|part| part.cluster == cluster);
            PendingChanges { cluster, after: position.arrival_of(cluster), until: *until, since: None, part }
        };
        clusters.iter().map(to_pending).filter(|arrivals| arrivals.after < arrivals.until).collect()
    }

    /// The rows that the database would return.
    fn query_rows(all: &[Row], pending_changes: &[PendingChanges], limit: usize) -> Vec<Row> {
        let passes = |row: &&Row| {
            pending_changes.iter().any(|pending| {
                let is_unread = pending.part.map_or(row.0 > pending.after, |part| {
                    (row.0, Uuid::from_u128(row.2)) > (part.arrival, part.id)
                });
                pending.cluster.0 == row.1 && row.0 <= pending.until && is_unread
            })
        };
        all.iter().filter(passes).take(limit).copied().collect()
    }

    #[test]
    fn a_reader_that_resumes_at_any_position_gets_every_row_once() {
        // Arrivals of three clusters: some with equal arrival numbers, and a long one.
        let mut all: Vec<Row> =
            (0..40).map(|number| Row(5 + number % 7, 1 + number % 3, number.unsigned_abs().into())).collect();
        all.extend((100..350).map(|number| Row(9, 2, number)));
        all.sort_unstable();
        let last = [(1, 11), (2, 11), (3, 11)];
        for limit in [1, 2, 7, 100, 500] {
            for payloads_per_connection in [1, 3, usize::MAX] {
                let (mut position, mut received, mut payloads) = (Position::at(4), Vec::new(), 0);
                let mut catch_up = CatchUp::new(arrivals(&position, &last), position.clone());
                while let Some(front) = catch_up.arrivals.front() {
                    let count = if front.part.is_some() { 1 } else { catch_up.arrivals.len() };
                    let pending_changes: Vec<PendingChanges> =
                        catch_up.arrivals.range(..count).copied().collect();
                    let rows = query_rows(&all, &pending_changes, limit);
                    let delivered = std::cell::RefCell::new(VecDeque::new());
                    let to_rows = |rows: Vec<Row>| {
                        delivered.borrow_mut().push_back(rows);
                        Rows::Events(Vec::new())
                    };
                    let batches = catch_up.advance_past(pending_changes, rows, limit, to_rows, |_| true);
                    for (batch, rows) in batches.into_iter().zip(delivered.into_inner()) {
                        assert!(rows.len() <= MAX_ROWS);
                        received.extend(rows);
                        position = batch.position;
                        payloads += 1;
                        if payloads % payloads_per_connection == 0 {
                            // The connection breaks here.
                            catch_up = CatchUp::new(arrivals(&position, &last), position.clone());
                            break;
                        }
                    }
                }
                received.sort_unstable();
                assert_eq!(received, all, "{limit} {payloads_per_connection}");
            }
        }
    }
}
