//! Reading what arrived, piece by piece: each is a payload, with how far whoever has it has read.

use std::collections::VecDeque;

use entity::{
    cluster, computation, error_occurrence, event,
    ids::{ClusterId, KeyTime},
    log_line,
};

use crate::{
    domain::position::{Part, Position},
    graphql::{Rows, Wanted},
    store::{AccountStore, Arrivals, ClusterFilter, StoreError},
};

/// Clusters that are read by one statement.
const MAX_CLUSTERS: usize = 100;

/// Rows in one payload.
const MAX_ROWS: usize = 100;

/// Rows that are read at once where not all of them are wanted.
const MAX_SEARCHED: usize = 500;

/// What is to be read, and how far that is.
pub(super) struct Errand {
    arrivals: VecDeque<Arrivals>,
    position: Position,
}

/// What is delivered together.
#[derive(Clone)]
pub(super) struct Piece {
    pub(super) rows: Rows,
    /// The cluster whose newest state it is, if it is one.
    pub(super) cluster: Option<ClusterId>,
    /// How far whoever has it has read.
    pub(super) position: Position,
}

impl Errand {
    /// Reads these arrivals, for somebody who has read so far.
    pub(super) fn new(arrivals: impl IntoIterator<Item = Arrivals>, position: Position) -> Self {
        let mut errand = Self { arrivals: arrivals.into_iter().collect(), position };
        errand.begun_first();
        errand
    }

    /// How far all is read that was returned.
    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    /// The next pieces, perhaps none; `None` when all is read. Nothing is lost if it is not waited for to the end.
    pub(super) async fn next(
        &mut self,
        wanted: &Wanted,
        store: &AccountStore,
    ) -> Result<Option<Vec<Piece>>, StoreError> {
        let begun = self.arrivals.front().is_some_and(|arrivals| arrivals.part.is_some());
        let count = if begun { 1 } else { self.arrivals.len().min(MAX_CLUSTERS) };
        if count == 0 {
            return Ok(None);
        }
        let batch: Vec<Arrivals> = self.arrivals.range(..count).copied().collect();
        let pieces = match wanted {
            Wanted::Clusters(filter) => {
                let rows = self.states(filter, &batch, store).await?;
                let piece = |(row, passes): (cluster::Model, bool)| {
                    self.state(Some(row.id), Rows::Cluster(Box::new(row), passes))
                };
                rows.into_iter().map(piece).collect()
            }
            Wanted::Snapshots(filter) => {
                let rows = self.states(filter, &batch, store).await?.into_iter();
                let rows: Vec<_> = rows.filter_map(|(row, passes)| passes.then_some(row)).collect();
                let some = (!rows.is_empty()).then_some(rows);
                some.into_iter().map(|rows| self.state(None, Rows::Clusters(rows))).collect()
            }
            Wanted::Computations(of) => {
                let rows = store.arrived_computations(of, &batch, MAX_ROWS as u64).await?;
                self.read(batch, rows, MAX_ROWS, Rows::Computations, |_| true)
            }
            Wanted::Errors(of, words) => {
                let limit = if words.is_some() { MAX_SEARCHED } else { MAX_ROWS };
                let rows = store.arrived_errors(of, &batch, limit as u64).await?;
                let keep = |row: &_| words.as_ref().is_none_or(|words| store.error_contains(row, words));
                self.read(batch, rows, limit, Rows::Errors, keep)
            }
            Wanted::Events(of) => {
                let rows = store.arrived_events(of, &batch, MAX_ROWS as u64).await?;
                self.read(batch, rows, MAX_ROWS, Rows::Events, |_| true)
            }
            Wanted::Logs(of, words) => {
                let limit = if words.is_some() { MAX_SEARCHED } else { MAX_ROWS };
                let rows = store.arrived_logs(of, &batch, limit as u64).await?;
                let keep = |row: &_| words.as_ref().is_none_or(|words| store.log_contains(row, words));
                self.read(batch, rows, limit, Rows::Logs, keep)
            }
        };
        Ok(Some(pieces))
    }

    /// The clusters of some arrivals as they are, which is all there is to be read of them.
    async fn states(
        &mut self,
        filter: &ClusterFilter,
        batch: &[Arrivals],
        store: &AccountStore,
    ) -> Result<Vec<(cluster::Model, bool)>, StoreError> {
        let ids: Vec<ClusterId> = batch.iter().map(|arrivals| arrivals.cluster).collect();
        let mut rows = store.passing_clusters(filter, &ids).await?;
        rows.sort_by_key(|(row, _)| (row.changed_at, row.id));
        self.arrivals.drain(..batch.len());
        Ok(rows)
    }

    fn state(&self, cluster: Option<ClusterId>, rows: Rows) -> Piece {
        Piece { rows, cluster, position: self.position.clone() }
    }

    /// Takes down that rows were read of the first arrivals, `limit` at the most, and makes pieces of those to `keep`.
    fn read<Row: Arrived>(
        &mut self,
        mut batch: Vec<Arrivals>,
        rows: Vec<Row>,
        limit: usize,
        pieces_of: impl Fn(Vec<Row>) -> Rows,
        keep: impl Fn(&Row) -> bool,
    ) -> Vec<Piece> {
        self.arrivals.drain(..batch.len());
        let more = rows.last().map(Row::part).filter(|_| rows.len() >= limit);
        let mut kept: VecDeque<Row> = rows.into_iter().filter(keep).collect();
        let mut pieces = Vec::new();
        while kept.len() > MAX_ROWS {
            let rows: Vec<Row> = kept.drain(..MAX_ROWS).collect();
            if let Some(last) = rows.last() {
                self.read_until(&mut batch, last.part());
            }
            pieces.push(Piece { rows: pieces_of(rows), cluster: None, position: self.position.clone() });
        }
        match more {
            Some(last) => self.read_until(&mut batch, last),
            None => {
                for Arrivals { cluster, until, .. } in batch.drain(..) {
                    self.position.read(cluster, until);
                }
            }
        }
        if !kept.is_empty() {
            let rows = pieces_of(kept.into());
            pieces.push(Piece { rows, cluster: None, position: self.position.clone() });
        }
        for arrivals in batch.into_iter().rev() {
            self.arrivals.push_front(arrivals);
        }
        self.begun_first();
        pieces
    }

    /// Takes down that all is read up to a row, in the order of arrivals, clusters and rows.
    fn read_until(&mut self, batch: &mut Vec<Arrivals>, last: Part) {
        for arrivals in batch.iter_mut() {
            let done = if arrivals.cluster < last.cluster { last.arrival } else { last.arrival - 1 };
            let done = done.min(arrivals.until);
            if done > arrivals.after {
                arrivals.after = done;
                self.position.read(arrivals.cluster, done);
            }
            if arrivals.part.is_some_and(|part| part.arrival <= done) {
                arrivals.part = None;
            }
            if arrivals.cluster == last.cluster {
                arrivals.part = Some(last);
            }
        }
        self.position.read_part(last);
        batch.retain(|arrivals| arrivals.after < arrivals.until);
    }

    /// An arrival of which a part is read comes first and is read alone, since a position has one such part.
    fn begun_first(&mut self) {
        if let Some(begun) = self.arrivals.iter().position(|arrivals| arrivals.part.is_some()) {
            self.arrivals.swap(0, begun);
        }
    }
}

/// A row that arrived.
trait Arrived {
    /// Where it stands among those that did.
    fn part(&self) -> Part;
}

macro_rules! arrived {
    ($($noun:ident: $at:ident),+) => {$(
        impl Arrived for $noun::Model {
            fn part(&self) -> Part {
                let at = KeyTime::from(self.$at).0;
                Part { cluster: self.cluster_id, arrival: self.arrived_at, at, id: self.id.0 }
            }
        }
    )+};
}
arrived!(computation: started_at, error_occurrence: occurred_at, event: occurred_at, log_line: logged_at);

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// A row with its cluster, its arrival and its number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Row(i64, i64, u128);

    impl Arrived for Row {
        fn part(&self) -> Part {
            let Self(arrival, cluster, number) = *self;
            Part { cluster: ClusterId(cluster), arrival, at: 0, id: Uuid::from_u128(number) }
        }
    }

    fn arrivals(position: &Position, clusters: &[(i64, i64)]) -> Vec<Arrivals> {
        let of = |(cluster, until): &(i64, i64)| {
            let cluster = ClusterId(*cluster);
            let part = position.part().filter(|part| part.cluster == cluster);
            Arrivals { cluster, after: position.of(cluster), until: *until, since: None, part }
        };
        clusters.iter().map(of).filter(|arrivals| arrivals.after < arrivals.until).collect()
    }

    /// What the database would find.
    fn found(all: &[Row], batch: &[Arrivals], limit: usize) -> Vec<Row> {
        let passes = |row: &&Row| {
            batch.iter().any(|of| {
                let behind = of.part.map_or(row.0 > of.after, |part| {
                    (row.0, Uuid::from_u128(row.2)) > (part.arrival, part.id)
                });
                of.cluster.0 == row.1 && row.0 <= of.until && behind
            })
        };
        all.iter().filter(passes).take(limit).copied().collect()
    }

    #[test]
    fn whoever_resumes_anywhere_gets_every_row_once() {
        // Arrivals of three clusters, some at the same time and one of them long.
        let mut all: Vec<Row> =
            (0..40).map(|number| Row(5 + number % 7, 1 + number % 3, number.unsigned_abs().into())).collect();
        all.extend((100..350).map(|number| Row(9, 2, number)));
        all.sort_unstable();
        let last = [(1, 11), (2, 11), (3, 11)];
        for limit in [1, 2, 7, 100, 500] {
            for every in [1, 3, usize::MAX] {
                let (mut position, mut got, mut pieces) = (Position::at(4), Vec::new(), 0);
                let mut errand = Errand::new(arrivals(&position, &last), position.clone());
                while let Some(front) = errand.arrivals.front() {
                    let count = if front.part.is_some() { 1 } else { errand.arrivals.len() };
                    let batch: Vec<Arrivals> = errand.arrivals.range(..count).copied().collect();
                    let rows = found(&all, &batch, limit);
                    let delivered = std::cell::RefCell::new(VecDeque::new());
                    let wrap = |rows: Vec<Row>| {
                        delivered.borrow_mut().push_back(rows);
                        Rows::Events(Vec::new())
                    };
                    let read = errand.read(batch, rows, limit, wrap, |_| true);
                    for (piece, rows) in read.into_iter().zip(delivered.into_inner()) {
                        assert!(rows.len() <= MAX_ROWS);
                        got.extend(rows);
                        position = piece.position;
                        pieces += 1;
                        if pieces % every == 0 {
                            // The connection breaks here.
                            errand = Errand::new(arrivals(&position, &last), position.clone());
                            break;
                        }
                    }
                }
                got.sort_unstable();
                assert_eq!(got, all, "{limit} {every}");
            }
        }
    }
}
