//! Stream cursors: the position of a reader in the changes of an account.
//!
//! Each change has a cluster and an arrival. The arrival number grows with every change of the cluster,
//! and equals the server's time in milliseconds wherever possible. The changes of one cluster are
//! committed in order, so a reader of one arrival has missed no earlier arrival of that cluster. There is
//! no such order between clusters: an earlier arrival may be committed later. So a position holds an
//! arrival for each recently read cluster, and one floor for all others. The floor lies so far back that
//! every earlier arrival is committed.
//!
//! Alerts and error groups belong to no single cluster. Their changes are ordered by row in the same way,
//! so a position in their streams holds arrivals of rows in place of clusters.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use entity::ids::ClusterId;
use uuid::Uuid;

/// The longest time between the arrival and the commit of a change, including the difference between the
/// servers' clocks, in milliseconds.
pub const SETTLED_AFTER_MS: i64 = 60_000;

/// The largest number of clusters or rows in a cursor. Beyond it, those with the earliest arrivals count as
/// read up to the latest arrival among them.
const MAX_KEYS: usize = 500;

/// The largest accepted length of a cursor, in bytes.
const MAX_BYTES: usize = 16 << 10;

const VERSION: u8 = 1;

/// The stream of a cursor. A cursor of another stream is refused.
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
    /// Log lines.
    Logs = 6,
    /// All streams: a cursor for the start of any subscription.
    Any = 7,
    /// Alerts.
    Alerts = 8,
    /// Error groups.
    ErrorGroups = 9,
}

impl Stream {
    /// Returns true if arrivals belong to clusters, and not to rows of the account.
    fn is_of_clusters(self) -> bool {
        !matches!(self, Self::Alerts | Self::ErrorGroups)
    }
}

/// The owner of an arrival: a cluster, or a row of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArrivalKey(u128);

impl From<ClusterId> for ArrivalKey {
    fn from(ClusterId(number): ClusterId) -> Self {
        Self(number.cast_unsigned().into())
    }
}

impl From<Uuid> for ArrivalKey {
    fn from(id: Uuid) -> Self {
        Self(id.as_u128())
    }
}

/// The position of a reader in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    floor: i64,
    arrivals: BTreeMap<ArrivalKey, i64>,
    part: Option<PartialArrival>,
}

/// The last row that was read of an arrival with further rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialArrival {
    /// The cluster of the arrival.
    pub cluster: ClusterId,
    /// The arrival.
    pub arrival: i64,
    /// The row's time.
    pub at: i64,
    /// The row's identifier.
    pub id: Uuid,
}

impl Position {
    /// Creates a position behind all arrivals up to `floor`.
    #[must_use]
    pub fn at(floor: i64) -> Self {
        Self { floor, arrivals: BTreeMap::new(), part: None }
    }

    /// Returns the arrival up to which all clusters and rows are read.
    #[must_use]
    pub fn floor(&self) -> i64 {
        self.floor
    }

    /// Returns the arrival up to which a cluster or a row is read.
    #[must_use]
    pub fn arrival_of(&self, key: impl Into<ArrivalKey>) -> i64 {
        self.arrivals.get(&key.into()).copied().unwrap_or(self.floor)
    }

    /// Returns true if this position is ahead of `other` for any cluster or row.
    #[must_use]
    pub fn is_ahead_of(&self, other: &Self) -> bool {
        self.arrivals.iter().any(|(key, arrival)| *arrival > other.arrival_of(*key))
    }

    /// Returns true if the position holds an arrival of its own for the cluster or row.
    #[must_use]
    pub fn has_own_arrival(&self, key: impl Into<ArrivalKey>) -> bool {
        self.arrivals.contains_key(&key.into())
    }

    /// Returns the last row that was read of an arrival with further rows.
    #[must_use]
    pub fn part(&self) -> Option<PartialArrival> {
        self.part
    }

    /// Marks a cluster or a row as read up to and including an arrival.
    pub fn mark_read(&mut self, key: impl Into<ArrivalKey>, arrival: i64) {
        let key = key.into();
        if arrival > self.arrival_of(key) {
            self.arrivals.insert(key, arrival);
        }
        if self.part.is_some_and(|part| ArrivalKey::from(part.cluster) == key && part.arrival <= arrival) {
            self.part = None;
        }
    }

    /// Marks a row as read, with all earlier arrivals of its cluster and all earlier rows of its arrival.
    pub fn mark_row_read(&mut self, part: PartialArrival) {
        self.mark_read(part.cluster, part.arrival - 1);
        self.part = Some(part);
    }

    /// Raises the floor to the latest arrival that is certainly committed at `now`, and drops arrivals at or
    /// below it.
    pub fn raise_floor(&mut self, now: i64) {
        self.floor = self.floor.max(now - SETTLED_AFTER_MS);
        let floor = self.floor;
        self.arrivals.retain(|_, arrival| *arrival > floor);
    }

    /// Encodes the position as a cursor.
    #[must_use]
    pub fn cursor(&self, stream: Stream) -> String {
        let mut floor = self.floor;
        if self.arrivals.len() > MAX_KEYS {
            let mut arrivals: Vec<i64> = self.arrivals.values().copied().collect();
            arrivals.sort_unstable();
            floor = arrivals[arrivals.len() - MAX_KEYS - 1];
        }
        let arrivals: Vec<_> = self.arrivals.iter().filter(|(_, arrival)| **arrival > floor).collect();
        let mut bytes = vec![VERSION, stream as u8];
        write_integer(floor, &mut bytes);
        write_integer(i64::try_from(arrivals.len()).unwrap_or(i64::MAX), &mut bytes);
        let mut previous_key = 0;
        for (key, arrival) in arrivals {
            write_varint(key.0 - previous_key, &mut bytes);
            write_integer(*arrival - floor, &mut bytes);
            previous_key = key.0;
        }
        if let Some(PartialArrival { cluster, arrival, at, id }) = self.part {
            write_integer(cluster.0, &mut bytes);
            write_integer(arrival, &mut bytes);
            write_integer(at, &mut bytes);
            bytes.extend_from_slice(id.as_bytes());
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes a cursor of this stream or of any stream. Returns `None` for every other text. A cursor of any
    /// stream holds arrivals of clusters, which do not concern streams of rows.
    #[must_use]
    pub fn parse(cursor: &str, stream: Stream) -> Option<Self> {
        if cursor.len() > MAX_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (&[version, stream_code], mut remainder) = bytes.split_first_chunk::<2>()?;
        let cursor_stream = [stream, Stream::Any].into_iter().find(|stream| *stream as u8 == stream_code)?;
        if version != VERSION {
            return None;
        }
        let (floor, count) = (read_integer(&mut remainder)?, read_integer(&mut remainder)?);
        let (mut arrivals, mut key) = (BTreeMap::new(), 0_u128);
        for _ in 0..count {
            key = key.checked_add(read_varint(&mut remainder).filter(|step| *step > 0)?)?;
            let lead = read_integer(&mut remainder).filter(|lead| *lead > 0)?;
            arrivals.insert(ArrivalKey(key), floor.checked_add(lead)?);
        }
        let part = if remainder.is_empty() {
            None
        } else {
            let (cluster, arrival, at) = (
                ClusterId(read_integer(&mut remainder)?),
                read_integer(&mut remainder)?,
                read_integer(&mut remainder)?,
            );
            Some(PartialArrival { cluster, arrival, at, id: Uuid::from_slice(remainder).ok()? })
        };
        let position = Self { floor, arrivals, part };
        // Each position has one cursor. Other encodings of it are not accepted.
        if position.cursor(cursor_stream) != cursor {
            return None;
        }
        let is_usable = cursor_stream == stream || stream.is_of_clusters();
        Some(if is_usable { position } else { Self::at(floor) })
    }
}

/// Appends a number as a varint.
fn write_varint(number: u128, bytes: &mut Vec<u8>) {
    let mut remainder = number;
    while remainder >= 0x80 {
        bytes.push(remainder.to_le_bytes()[0] | 0x80);
        remainder >>= 7;
    }
    bytes.push(remainder.to_le_bytes()[0]);
}

fn write_integer(number: i64, bytes: &mut Vec<u8>) {
    write_varint(number.cast_unsigned().into(), bytes);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u128> {
    let mut number = 0_u128;
    for shift in (0..128).step_by(7) {
        let (byte, remainder) = bytes.split_first()?;
        *bytes = remainder;
        number |= u128::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn read_integer(bytes: &mut &[u8]) -> Option<i64> {
    u64::try_from(read_varint(bytes)?).ok().map(u64::cast_signed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cluster_is_read_further_than_the_others() {
        let mut position = Position::at(1_000_000);
        position.mark_read(ClusterId(1), 1_050_000);
        position.mark_read(ClusterId(1), 1_040_000);
        position.mark_read(ClusterId(2), 1_010_000);
        assert_eq!([1, 2, 3].map(|id| position.arrival_of(ClusterId(id))), [1_050_000, 1_010_000, 1_000_000]);
        let behind = Position::at(1_020_000);
        assert!(position.is_ahead_of(&behind) && !behind.is_ahead_of(&position));
        position.raise_floor(1_080_000);
        assert_eq!([1, 2, 3].map(|id| position.arrival_of(ClusterId(id))), [1_050_000, 1_020_000, 1_020_000]);
        position.raise_floor(1_000_000);
        assert_eq!(position.floor(), 1_020_000);
    }

    #[test]
    fn what_is_read_of_an_arrival_counts_until_all_of_it_is() {
        let mut position = Position::at(10);
        let part = PartialArrival { cluster: ClusterId(1), arrival: 20, at: 15, id: Uuid::from_u128(1) };
        position.mark_row_read(part);
        assert_eq!((position.arrival_of(ClusterId(1)), position.part()), (19, Some(part)));
        position.mark_read(ClusterId(2), 30);
        assert_eq!(position.part(), Some(part));
        position.mark_read(ClusterId(1), 20);
        assert_eq!((position.arrival_of(ClusterId(1)), position.part()), (20, None));
    }

    #[test]
    fn a_cursor_names_so_many_clusters() {
        let mut position = Position::at(0);
        for id in 1..=600 {
            position.mark_read(ClusterId(id), id);
        }
        let cursor = position.cursor(Stream::Logs);
        let read = Position::parse(&cursor, Stream::Logs).expect("it is one");
        assert_eq!(
            (read.floor(), read.arrival_of(ClusterId(600)), read.arrival_of(ClusterId(7))),
            (100, 600, 100)
        );
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

    #[test]
    fn a_cursor_of_any_stream_says_of_rows_only_how_far_all_are_read() {
        let mut position = Position::at(5);
        position.mark_read(ClusterId(1), 9);
        let cursor = position.cursor(Stream::Any);
        assert_eq!(Position::parse(&cursor, Stream::Errors), Some(position));
        assert_eq!(Position::parse(&cursor, Stream::Alerts), Some(Position::at(5)));
    }

    #[test]
    fn the_longest_cursor_of_rows_is_accepted() {
        let (floor, day) = (1_795_000_000_000, 86_400_000);
        let mut position = Position::at(floor);
        for number in 1..=500_u128 {
            // Far from each other, as random identifiers are.
            position.mark_read(Uuid::from_u128(number * (u128::MAX / 501)), floor + day);
        }
        let cursor = position.cursor(Stream::Alerts);
        assert_eq!(Position::parse(&cursor, Stream::Alerts), Some(position), "{} bytes", cursor.len());
    }

    proptest! {
        #[test]
        fn a_cursor_of_rows_is_read_back(
            floor in 0..i64::MAX / 4,
            rows in prop::collection::btree_map(1..u128::MAX, 1..1_i64 << 40, 0..20),
        ) {
            let mut position = Position::at(floor);
            for (row, after) in rows {
                position.mark_read(Uuid::from_u128(row), floor + after);
            }
            let cursor = position.cursor(Stream::ErrorGroups);
            prop_assert_eq!(Position::parse(&cursor, Stream::ErrorGroups), Some(position));
        }

        #[test]
        fn a_cursor_is_read_back(
            floor in 0..i64::MAX / 4,
            clusters in prop::collection::btree_map(1..1_i64 << 53, 1..1_i64 << 40, 0..20),
            part in prop::option::of((1..1_i64 << 53, 1..i64::MAX, any::<i64>(), any::<u128>())),
        ) {
            let mut position = Position::at(floor);
            for (cluster, after) in clusters {
                position.mark_read(ClusterId(cluster), floor + after);
            }
            if let Some((cluster, arrival, at, id)) = part {
                position.part = Some(PartialArrival { cluster: ClusterId(cluster), arrival, at, id: Uuid::from_u128(id) });
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
