//! The replay buffer: the latest payloads of a group, for the readers that have not taken them yet.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::body::Bytes;
use entity::ids::ClusterId;

use crate::domain::stream_cursor::Position;

/// The limit of the number of payloads in the buffer.
const MAX_PAYLOADS: usize = 1_000;

/// The limit of the total size of the payloads in the buffer, in bytes.
const MAX_BYTES: usize = 512 << 10;

/// The payloads in the order of writing, numbered consecutively.
pub(super) struct ReplayBuffer {
    first_number: u64,
    payloads: VecDeque<Payload>,
    /// The total size of the payloads.
    size_bytes: usize,
    /// The number of the payload that holds the newest state of each cluster.
    newest_numbers: HashMap<ClusterId, u64>,
    /// The number of a new reader's next payload, and its position. The position never lies within a partly
    /// read arrival.
    join_point: (u64, Arc<Position>),
    /// The number of the payload that each reader takes next.
    readers: Vec<std::sync::Weak<AtomicU64>>,
}

struct Payload {
    /// None after a newer state of the same cluster was written.
    bytes: Option<Bytes>,
    /// The cluster whose state it is. None for a payload of added rows.
    cluster: Option<ClusterId>,
    position: Arc<Position>,
}

/// The result of looking for a reader's next payload.
pub(super) enum NextPayload {
    /// The next payload, the position that a reader reaches with it, and whether payloads before it were
    /// skipped.
    Payload { number: u64, bytes: Bytes, position: Arc<Position>, skipped: bool },
    /// The reader has taken all payloads.
    Nothing,
    /// The reader's next payload is not in the buffer any more.
    Gone,
}

impl ReplayBuffer {
    pub(super) fn new(position: Position) -> Self {
        let join_point = (0, Arc::new(position));
        let (payloads, newest_numbers, readers) = (VecDeque::new(), HashMap::new(), Vec::new());
        Self { first_number: 0, payloads, size_bytes: 0, newest_numbers, join_point, readers }
    }

    /// Returns the number of the next payload to be written.
    pub(super) fn head(&self) -> u64 {
        self.first_number + self.payloads.len() as u64
    }

    /// Returns the position of a reader that has taken all payloads, up to the last completely read
    /// arrival.
    pub(super) fn complete_position(&self) -> &Position {
        &self.join_point.1
    }

    /// Adds a reader. Returns the number of the payload that it takes next, and the position before that
    /// payload.
    pub(super) fn add_reader(&mut self) -> (Arc<AtomicU64>, Arc<Position>) {
        let (number, position) = self.join_point.clone();
        let next_number = Arc::new(AtomicU64::new(number));
        self.readers.push(Arc::downgrade(&next_number));
        (next_number, position)
    }

    /// Appends a payload. The state of a cluster replaces the cluster's earlier state in the buffer.
    pub(super) fn push(&mut self, bytes: Bytes, cluster: Option<ClusterId>, position: Position) {
        let number = self.head();
        if let Some(previous_number) = cluster.and_then(|cluster| self.newest_numbers.insert(cluster, number))
        {
            let previous_index =
                previous_number.checked_sub(self.first_number).and_then(|index| usize::try_from(index).ok());
            if let Some(bytes) = previous_index.and_then(|index| self.payloads.get_mut(index)?.bytes.take()) {
                self.size_bytes -= bytes.len();
            }
        }
        self.size_bytes += bytes.len();
        self.payloads.push_back(Payload {
            bytes: Some(bytes),
            cluster,
            position: Arc::new(position.clone()),
        });
        self.record_position(position);
        while self.payloads.len() > MAX_PAYLOADS || (self.size_bytes > MAX_BYTES && self.payloads.len() > 1) {
            self.drop_first();
        }
    }

    /// Records the position of a reader that has taken all payloads, unless it lies within an arrival.
    pub(super) fn record_position(&mut self, position: Position) {
        if position.part().is_none() {
            self.join_point = (self.head(), Arc::new(position));
        }
    }

    /// Drops the payloads that all readers have taken.
    pub(super) fn drop_taken_payloads(&mut self) {
        self.readers.retain(|reader| reader.strong_count() > 0);
        let next_numbers =
            self.readers.iter().filter_map(|reader| Some(reader.upgrade()?.load(Ordering::Relaxed)));
        let taken = next_numbers.min().unwrap_or_else(|| self.head()).min(self.join_point.0);
        while self.first_number < taken && !self.payloads.is_empty() {
            self.drop_first();
        }
    }

    /// Returns true if half of the readers have taken all payloads. Only readers that have reached
    /// payload `min_number` count.
    pub(super) fn is_taken_by_half(&self, min_number: u64) -> bool {
        let next_numbers =
            self.readers.iter().filter_map(|reader| Some(reader.upgrade()?.load(Ordering::Relaxed)));
        let (mut taken, mut waiting) = (0, 0);
        for number in next_numbers.filter(|number| *number >= min_number) {
            if number < self.head() { waiting += 1 } else { taken += 1 }
        }
        taken >= waiting
    }

    /// Returns the payload for a reader whose next payload is this number.
    pub(super) fn next(&self, number: u64) -> NextPayload {
        let Some(index) = number.checked_sub(self.first_number).and_then(|index| usize::try_from(index).ok())
        else {
            return NextPayload::Gone;
        };
        for (skipped_count, payload) in self.payloads.range(index.min(self.payloads.len())..).enumerate() {
            if let Some(bytes) = &payload.bytes {
                return NextPayload::Payload {
                    number: number + skipped_count as u64,
                    bytes: bytes.clone(),
                    position: Arc::clone(&payload.position),
                    skipped: skipped_count > 0,
                };
            }
        }
        NextPayload::Nothing
    }

    fn drop_first(&mut self) {
        if let Some(payload) = self.payloads.pop_front() {
            self.size_bytes -= payload.bytes.map_or(0, |bytes| bytes.len());
            // The cluster's entry is removed with its payload. Otherwise the map would grow with the
            // number of the account's clusters.
            if let Some(cluster) = payload.cluster
                && self.newest_numbers.get(&cluster) == Some(&self.first_number)
            {
                self.newest_numbers.remove(&cluster);
            }
            self.first_number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer() -> ReplayBuffer {
        ReplayBuffer::new(Position::at(0))
    }

    fn push(buffer: &mut ReplayBuffer, text: &'static str, cluster: i64, at: i64) {
        buffer.push(Bytes::from_static(text.as_bytes()), Some(ClusterId(cluster)), Position::at(at));
    }

    fn take_next(buffer: &ReplayBuffer, number: u64) -> Option<(u64, &'static str, bool)> {
        match buffer.next(number) {
            NextPayload::Payload { number, bytes, skipped, .. } => {
                Some((number, ["a", "b", "c"].into_iter().find(|text| text.as_bytes() == bytes)?, skipped))
            }
            NextPayload::Nothing | NextPayload::Gone => None,
        }
    }

    #[test]
    fn a_slow_reader_gets_the_newest_state_of_each_cluster() {
        let mut buffer = buffer();
        push(&mut buffer, "a", 1, 1);
        push(&mut buffer, "b", 2, 2);
        push(&mut buffer, "c", 1, 3);
        assert_eq!(take_next(&buffer, 0), Some((1, "b", true)));
        assert_eq!(take_next(&buffer, 2), Some((2, "c", false)));
        assert!(matches!(buffer.next(3), NextPayload::Nothing));
    }

    #[test]
    fn no_more_clusters_are_remembered_than_there_are_payloads() {
        let mut buffer = buffer();
        let clusters = i64::try_from(MAX_PAYLOADS).expect("it is small") * 3;
        for cluster in 0..clusters {
            push(&mut buffer, "a", cluster, cluster);
            push(&mut buffer, "b", 0, cluster);
        }
        assert_eq!(buffer.payloads.len(), MAX_PAYLOADS);
        assert_eq!(buffer.newest_numbers.len(), MAX_PAYLOADS / 2 + 1);
        assert_eq!(take_next(&buffer, buffer.head() - 1), Some((buffer.head() - 1, "b", false)));
    }

    #[test]
    fn what_all_have_taken_is_forgotten() {
        let mut buffer = buffer();
        let (fast, _) = buffer.add_reader();
        let (slow, _) = buffer.add_reader();
        push(&mut buffer, "a", 1, 1);
        push(&mut buffer, "b", 2, 2);
        fast.store(2, Ordering::Relaxed);
        slow.store(1, Ordering::Relaxed);
        buffer.drop_taken_payloads();
        assert_eq!((buffer.payloads.len(), buffer.first_number), (1, 1));
        assert!(matches!(buffer.next(0), NextPayload::Gone));
        drop(slow);
        buffer.drop_taken_payloads();
        assert_eq!((buffer.payloads.len(), buffer.first_number, buffer.size_bytes), (0, 2, 0));
    }

    #[test]
    fn readers_who_take_nothing_are_not_waited_for_any_more() {
        let mut buffer = buffer();
        let readers = [(); 5].map(|()| buffer.add_reader().0);
        assert!(buffer.is_taken_by_half(0));
        push(&mut buffer, "a", 1, 1);
        push(&mut buffer, "b", 2, 2);
        let take = |reader: usize, number| readers[reader].store(number, Ordering::Relaxed);
        for (reader, number, is_taken) in [(0, 1, false), (0, 2, false), (1, 2, false), (2, 2, true)] {
            take(reader, number);
            assert_eq!(buffer.is_taken_by_half(0), is_taken, "reader {reader} at {number}");
        }
        // Two readers have not taken anything since the round before.
        push(&mut buffer, "c", 1, 3);
        take(0, 3);
        assert!(!buffer.is_taken_by_half(2), "two of the three others have not taken it");
        take(1, 3);
        assert!(!buffer.is_taken_by_half(0) && buffer.is_taken_by_half(2));
        drop(readers);
        assert!(buffer.is_taken_by_half(0));
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let mut buffer = buffer();
        let (_reader, _) = buffer.add_reader();
        for number in 0..10 {
            buffer.push(Bytes::from(vec![0; MAX_BYTES / 4]), None, Position::at(number));
        }
        assert_eq!((buffer.payloads.len(), buffer.first_number), (4, 6));
        assert!(matches!(buffer.next(5), NextPayload::Gone));
        let large = Bytes::from(vec![0; 2 * MAX_BYTES]);
        buffer.push(large, None, Position::at(11));
        assert_eq!(buffer.payloads.len(), 1);
    }

    #[test]
    fn nobody_joins_within_an_arrival() {
        use crate::domain::stream_cursor::PartialArrival;
        let mut buffer = buffer();
        push(&mut buffer, "a", 1, 7);
        let mut position = Position::at(7);
        let part = PartialArrival { cluster: ClusterId(1), arrival: 9, at: 1, id: uuid::Uuid::from_u128(1) };
        position.mark_row_read(part);
        buffer.push(Bytes::from_static(b"b"), None, position);
        let (next_number, position) = buffer.add_reader();
        assert_eq!((next_number.load(Ordering::Relaxed), position.floor(), position.part()), (1, 7, None));
    }
}
