//! What a group wrote last, for those who have not taken it yet.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::body::Bytes;
use entity::ids::ClusterId;

use crate::domain::position::Position;

/// Payloads that are kept.
const MAX_PAYLOADS: usize = 1_000;

/// Bytes of them.
const MAX_BYTES: usize = 512 << 10;

/// What was written, in order, each with a number that grows by one.
pub(super) struct Ring {
    first: u64,
    payloads: VecDeque<Payload>,
    bytes: usize,
    /// The payload that has the newest state of a cluster.
    newest: HashMap<ClusterId, u64>,
    /// How far those have read who have taken all of it, or all before an arrival of which a part is there; and the number of
    /// the next payload then.
    whole: (u64, Arc<Position>),
    /// The numbers of the payloads that readers take next.
    readers: Vec<std::sync::Weak<AtomicU64>>,
}

struct Payload {
    /// None when a newer state of its cluster was written.
    bytes: Option<Bytes>,
    position: Arc<Position>,
}

/// What there is for a reader.
pub(super) enum Next {
    /// This payload, with what has been read with it, and whether some before it were left out.
    Payload { number: u64, bytes: Bytes, position: Arc<Position>, skipped: bool },
    /// Nothing yet.
    Nothing,
    /// What they were to take next is not kept any more.
    Gone,
}

impl Ring {
    pub(super) fn new(position: Position) -> Self {
        let whole = (0, Arc::new(position));
        let (payloads, newest, readers) = (VecDeque::new(), HashMap::new(), Vec::new());
        Self { first: 0, payloads, bytes: 0, newest, whole, readers }
    }

    /// The number of the payload that is written next.
    pub(super) fn head(&self) -> u64 {
        self.first + self.payloads.len() as u64
    }

    /// How far those have read who have taken all.
    pub(super) fn whole(&self) -> &Position {
        &self.whole.1
    }

    /// Lets somebody in. They are told what has been read before the payload that they take next.
    pub(super) fn join(&mut self) -> (Arc<AtomicU64>, Arc<Position>) {
        let (number, position) = self.whole.clone();
        let place = Arc::new(AtomicU64::new(number));
        self.readers.push(Arc::downgrade(&place));
        (place, position)
    }

    /// Puts a payload at the end. If it is the state of a cluster, an earlier one of that is of no use any more.
    pub(super) fn push(&mut self, bytes: Bytes, cluster: Option<ClusterId>, position: Position) {
        let number = self.head();
        if let Some(before) = cluster.and_then(|cluster| self.newest.insert(cluster, number)) {
            let before = before.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
            if let Some(bytes) = before.and_then(|index| self.payloads.get_mut(index)?.bytes.take()) {
                self.bytes -= bytes.len();
            }
        }
        self.bytes += bytes.len();
        self.payloads.push_back(Payload { bytes: Some(bytes), position: Arc::new(position.clone()) });
        self.settle(position);
        while self.payloads.len() > MAX_PAYLOADS || (self.bytes > MAX_BYTES && self.payloads.len() > 1) {
            self.drop_first();
        }
    }

    /// Takes down how far those have read who have taken all.
    pub(super) fn settle(&mut self, position: Position) {
        if position.part().is_none() {
            self.whole = (self.head(), Arc::new(position));
        }
    }

    /// Forgets what everybody has taken.
    pub(super) fn forget(&mut self) {
        self.readers.retain(|reader| reader.strong_count() > 0);
        let places = self.readers.iter().filter_map(|reader| Some(reader.upgrade()?.load(Ordering::Relaxed)));
        let taken = places.min().unwrap_or_else(|| self.head()).min(self.whole.0);
        while self.first < taken && !self.payloads.is_empty() {
            self.drop_first();
        }
        if self.payloads.is_empty() {
            self.newest.clear();
        }
    }

    /// Whether half of the readers have taken all there is, of those who have taken what lies in front of `since`.
    pub(super) fn is_taken_by_half(&self, since: u64) -> bool {
        let places = self.readers.iter().filter_map(|reader| Some(reader.upgrade()?.load(Ordering::Relaxed)));
        let (mut taken, mut waiting) = (0, 0);
        for place in places.filter(|place| *place >= since) {
            if place < self.head() { waiting += 1 } else { taken += 1 }
        }
        taken >= waiting
    }

    /// What there is for somebody who takes the payload with this number next.
    pub(super) fn next(&self, place: u64) -> Next {
        let Some(index) = place.checked_sub(self.first).and_then(|index| usize::try_from(index).ok()) else {
            return Next::Gone;
        };
        for (passed, payload) in self.payloads.range(index.min(self.payloads.len())..).enumerate() {
            if let Some(bytes) = &payload.bytes {
                return Next::Payload {
                    number: place + passed as u64,
                    bytes: bytes.clone(),
                    position: Arc::clone(&payload.position),
                    skipped: passed > 0,
                };
            }
        }
        Next::Nothing
    }

    fn drop_first(&mut self) {
        if let Some(payload) = self.payloads.pop_front() {
            self.bytes -= payload.bytes.map_or(0, |bytes| bytes.len());
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Ring {
        Ring::new(Position::at(0))
    }

    fn push(ring: &mut Ring, text: &'static str, cluster: i64, at: i64) {
        ring.push(Bytes::from_static(text.as_bytes()), Some(ClusterId(cluster)), Position::at(at));
    }

    fn taken(ring: &Ring, place: u64) -> Option<(u64, &'static str, bool)> {
        match ring.next(place) {
            Next::Payload { number, bytes, skipped, .. } => {
                Some((number, ["a", "b", "c"].into_iter().find(|text| text.as_bytes() == bytes)?, skipped))
            }
            Next::Nothing | Next::Gone => None,
        }
    }

    #[test]
    fn a_slow_reader_gets_the_newest_state_of_each_cluster() {
        let mut ring = ring();
        push(&mut ring, "a", 1, 1);
        push(&mut ring, "b", 2, 2);
        push(&mut ring, "c", 1, 3);
        assert_eq!(taken(&ring, 0), Some((1, "b", true)));
        assert_eq!(taken(&ring, 2), Some((2, "c", false)));
        assert!(matches!(ring.next(3), Next::Nothing));
    }

    #[test]
    fn what_all_have_taken_is_forgotten() {
        let mut ring = ring();
        let (fast, _) = ring.join();
        let (slow, _) = ring.join();
        push(&mut ring, "a", 1, 1);
        push(&mut ring, "b", 2, 2);
        fast.store(2, Ordering::Relaxed);
        slow.store(1, Ordering::Relaxed);
        ring.forget();
        assert_eq!((ring.payloads.len(), ring.first), (1, 1));
        assert!(matches!(ring.next(0), Next::Gone));
        drop(slow);
        ring.forget();
        assert_eq!((ring.payloads.len(), ring.first, ring.bytes), (0, 2, 0));
    }

    #[test]
    fn readers_who_take_nothing_are_not_waited_for_any_more() {
        let mut ring = ring();
        let readers = [(); 5].map(|()| ring.join().0);
        assert!(ring.is_taken_by_half(0));
        push(&mut ring, "a", 1, 1);
        push(&mut ring, "b", 2, 2);
        let take = |reader: usize, place| readers[reader].store(place, Ordering::Relaxed);
        for (reader, place, is_taken) in [(0, 1, false), (0, 2, false), (1, 2, false), (2, 2, true)] {
            take(reader, place);
            assert_eq!(ring.is_taken_by_half(0), is_taken, "reader {reader} at {place}");
        }
        // Two have not taken anything since the round before.
        push(&mut ring, "c", 1, 3);
        take(0, 3);
        assert!(!ring.is_taken_by_half(2), "two of the three others have not taken it");
        take(1, 3);
        assert!(!ring.is_taken_by_half(0) && ring.is_taken_by_half(2));
        drop(readers);
        assert!(ring.is_taken_by_half(0));
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let mut ring = ring();
        let (_reader, _) = ring.join();
        for number in 0..10 {
            ring.push(Bytes::from(vec![0; MAX_BYTES / 4]), None, Position::at(number));
        }
        assert_eq!((ring.payloads.len(), ring.first), (4, 6));
        assert!(matches!(ring.next(5), Next::Gone));
        let large = Bytes::from(vec![0; 2 * MAX_BYTES]);
        ring.push(large, None, Position::at(11));
        assert_eq!(ring.payloads.len(), 1);
    }

    #[test]
    fn nobody_joins_within_an_arrival() {
        use crate::domain::position::Part;
        let mut ring = ring();
        push(&mut ring, "a", 1, 7);
        let mut position = Position::at(7);
        let part = Part { cluster: ClusterId(1), arrival: 9, at: 1, id: uuid::Uuid::from_u128(1) };
        position.read_part(part);
        ring.push(Bytes::from_static(b"b"), None, position);
        let (place, position) = ring.join();
        assert_eq!((place.load(Ordering::Relaxed), position.floor(), position.part()), (1, 7, None));
    }
}
