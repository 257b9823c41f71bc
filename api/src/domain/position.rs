//! How far somebody has read what arrives in an account.
//!
//! What arrives has a place: its cluster, and the arrival of what brought it, which grows with each change of the cluster
//! and is the server's time in milliseconds wherever it can be. A cluster's changes are committed one after the other, so
//! whoever has read one arrival of a cluster has missed none before it. Between clusters there is no such order: what has an
//! earlier arrival may be committed later. A position therefore has a place of its own for each cluster that was read
//! lately, and one for all others, which lies so far back that whatever arrived before it is there.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use entity::ids::ClusterId;
use uuid::Uuid;

/// How long after its arrival a change may be committed, the difference between servers' clocks included.
pub const SETTLED_AFTER_MS: i64 = 60_000;

/// Clusters that a cursor names. With more, those read first count as read until the time of the last of them.
const MAX_CLUSTERS: usize = 500;

/// Bytes of a cursor; more is none.
const MAX_BYTES: usize = 16 << 10;

const VERSION: u8 = 1;

/// What a cursor is of, so that one of another stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Changes of clusters.
    Clusters = 1,
    /// Snapshots of clusters.
    Snapshots = 2,
    /// Computations.
    Computations = 3,
    /// Errors.
    Errors = 4,
    /// Events.
    Events = 5,
    /// Lines of logs.
    Logs = 6,
    /// All of them: what is given out to begin with.
    Any = 7,
}

/// How far somebody has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    floor: i64,
    clusters: BTreeMap<ClusterId, i64>,
    part: Option<Part>,
}

/// A row up to which an arrival has been read that has more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose arrival.
    pub cluster: ClusterId,
    /// Which.
    pub arrival: i64,
    /// The row's time.
    pub at: i64,
    /// The row's identifier.
    pub id: Uuid,
}

impl Position {
    /// Where all is read that arrived until `floor`.
    #[must_use]
    pub fn at(floor: i64) -> Self {
        Self { floor, clusters: BTreeMap::new(), part: None }
    }

    /// Up to where all clusters are read.
    #[must_use]
    pub fn floor(&self) -> i64 {
        self.floor
    }

    /// Up to which arrival a cluster is read.
    #[must_use]
    pub fn of(&self, cluster: ClusterId) -> i64 {
        self.clusters.get(&cluster).copied().unwrap_or(self.floor)
    }

    /// Whether something of any cluster has been read that somebody who has read as far as `other` has not.
    #[must_use]
    pub fn is_ahead_of(&self, other: &Self) -> bool {
        self.clusters.iter().any(|(cluster, arrival)| *arrival > other.of(*cluster))
    }

    /// Whether something of a cluster is known to have been read that not all clusters are read up to.
    #[must_use]
    pub fn names(&self, cluster: ClusterId) -> bool {
        self.clusters.contains_key(&cluster)
    }

    /// The row up to which an arrival has been read that has more.
    #[must_use]
    pub fn part(&self) -> Option<Part> {
        self.part
    }

    /// All of a cluster is read up to an arrival.
    pub fn read(&mut self, cluster: ClusterId, arrival: i64) {
        if arrival > self.of(cluster) {
            self.clusters.insert(cluster, arrival);
        }
        if self.part.is_some_and(|part| part.cluster == cluster && part.arrival <= arrival) {
            self.part = None;
        }
    }

    /// A row is read, with all rows of its cluster that arrived before and those of its arrival that come before it.
    pub fn read_part(&mut self, part: Part) {
        self.read(part.cluster, part.arrival - 1);
        self.part = Some(part);
    }

    /// All is read that was committed until `now`: clusters that were read so long ago need no place of their own.
    pub fn settle(&mut self, now: i64) {
        self.floor = self.floor.max(now - SETTLED_AFTER_MS);
        let floor = self.floor;
        self.clusters.retain(|_, arrival| *arrival > floor);
    }

    /// The position as text, for whoever resumes the stream there.
    #[must_use]
    pub fn cursor(&self, stream: Stream) -> String {
        let mut floor = self.floor;
        if self.clusters.len() > MAX_CLUSTERS {
            let mut arrivals: Vec<i64> = self.clusters.values().copied().collect();
            arrivals.sort_unstable();
            floor = arrivals[arrivals.len() - MAX_CLUSTERS - 1];
        }
        let clusters: Vec<_> = self.clusters.iter().filter(|(_, arrival)| **arrival > floor).collect();
        let mut bytes = vec![VERSION, stream as u8];
        put(floor, &mut bytes);
        put(i64::try_from(clusters.len()).unwrap_or(i64::MAX), &mut bytes);
        let mut before = 0;
        for (cluster, arrival) in clusters {
            put(cluster.0 - before, &mut bytes);
            put(*arrival - floor, &mut bytes);
            before = cluster.0;
        }
        if let Some(Part { cluster, arrival, at, id }) = self.part {
            put(cluster.0, &mut bytes);
            put(arrival, &mut bytes);
            put(at, &mut bytes);
            bytes.extend_from_slice(id.as_bytes());
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads what [`Self::cursor`] wrote for this stream or for any; none if it is anything else.
    #[must_use]
    pub fn parse(cursor: &str, stream: Stream) -> Option<Self> {
        if cursor.len() > MAX_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (&[version, of], mut rest) = bytes.split_first_chunk::<2>()?;
        let written_for = [stream, Stream::Any].into_iter().find(|stream| *stream as u8 == of)?;
        if version != VERSION {
            return None;
        }
        let (floor, count) = (take(&mut rest)?, take(&mut rest)?);
        let (mut clusters, mut cluster) = (BTreeMap::new(), 0_i64);
        for _ in 0..count {
            cluster = cluster.checked_add(step(&mut rest)?)?;
            clusters.insert(ClusterId(cluster), floor.checked_add(step(&mut rest)?)?);
        }
        let part = if rest.is_empty() {
            None
        } else {
            let (cluster, arrival, at) = (ClusterId(take(&mut rest)?), take(&mut rest)?, take(&mut rest)?);
            Some(Part { cluster, arrival, at, id: Uuid::from_slice(rest).ok()? })
        };
        let position = Self { floor, clusters, part };
        // One position has one cursor: other notations of it are not accepted.
        (position.cursor(written_for) == cursor).then_some(position)
    }
}

/// A number, seven bits at a time.
fn put(number: i64, bytes: &mut Vec<u8>) {
    let mut left = number.cast_unsigned();
    while left >= 0x80 {
        bytes.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    bytes.push(left.to_le_bytes()[0]);
}

fn take(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number.cast_signed());
        }
    }
    None
}

/// A number that leads on from the one before.
fn step(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes).filter(|step| *step > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cluster_is_read_further_than_the_others() {
        let mut position = Position::at(1_000_000);
        position.read(ClusterId(1), 1_050_000);
        position.read(ClusterId(1), 1_040_000);
        position.read(ClusterId(2), 1_010_000);
        assert_eq!([1, 2, 3].map(|id| position.of(ClusterId(id))), [1_050_000, 1_010_000, 1_000_000]);
        let behind = Position::at(1_020_000);
        assert!(position.is_ahead_of(&behind) && !behind.is_ahead_of(&position));
        position.settle(1_080_000);
        assert_eq!([1, 2, 3].map(|id| position.of(ClusterId(id))), [1_050_000, 1_020_000, 1_020_000]);
        position.settle(1_000_000);
        assert_eq!(position.floor(), 1_020_000);
    }

    #[test]
    fn what_is_read_of_an_arrival_counts_until_all_of_it_is() {
        let mut position = Position::at(10);
        let part = Part { cluster: ClusterId(1), arrival: 20, at: 15, id: Uuid::from_u128(1) };
        position.read_part(part);
        assert_eq!((position.of(ClusterId(1)), position.part()), (19, Some(part)));
        position.read(ClusterId(2), 30);
        assert_eq!(position.part(), Some(part));
        position.read(ClusterId(1), 20);
        assert_eq!((position.of(ClusterId(1)), position.part()), (20, None));
    }

    #[test]
    fn a_cursor_names_so_many_clusters() {
        let mut position = Position::at(0);
        for id in 1..=600 {
            position.read(ClusterId(id), id);
        }
        let cursor = position.cursor(Stream::Logs);
        let read = Position::parse(&cursor, Stream::Logs).expect("it is one");
        assert_eq!((read.floor(), read.of(ClusterId(600)), read.of(ClusterId(7))), (100, 600, 100));
    }

    #[test]
    fn a_cursor_of_another_stream_is_none() {
        let position = Position::at(1);
        assert_eq!(Position::parse(&position.cursor(Stream::Logs), Stream::Events), None);
        assert_eq!(Position::parse(&position.cursor(Stream::Any), Stream::Events), Some(position));
        for text in ["", "AQ", "AQY", "AQYB", "AQYBAQ", "not base64!", "AgYBAA", "AQaBAAA"] {
            assert_eq!(Position::parse(text, Stream::Logs), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_cursor_is_read_back(
            floor in 0..i64::MAX / 4,
            clusters in prop::collection::btree_map(1..1_i64 << 53, 1..1_i64 << 40, 0..20),
            part in prop::option::of((1..1_i64 << 53, 1..i64::MAX, any::<i64>(), any::<u128>())),
        ) {
            let mut position = Position::at(floor);
            for (cluster, after) in clusters {
                position.read(ClusterId(cluster), floor + after);
            }
            if let Some((cluster, arrival, at, id)) = part {
                position.part = Some(Part { cluster: ClusterId(cluster), arrival, at, id: Uuid::from_u128(id) });
            }
            let cursor = position.cursor(Stream::Errors);
            prop_assert_eq!(Position::parse(&cursor, Stream::Errors), Some(position));
        }

        #[test]
        fn any_text_is_looked_at_without_harm(text in "[A-Za-z0-9_-]{0,200}") {
            let _ = Position::parse(&text, Stream::Errors);
        }
    }
}
