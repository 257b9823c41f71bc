//! The ranges of packed chunks that a query reads.

use std::collections::BTreeMap;

/// Ranges of chunks, in the order of their owners and times. They are disjoint: two windows of one owner that
/// are far apart do not read the time between them.
pub(crate) struct ChunkRanges<K>(BTreeMap<(K, i64), i64>);

impl<K: Copy + Ord> ChunkRanges<K> {
    /// Creates the ranges from owners, each with the starts of the first and the last chunk to read.
    pub(crate) fn new(windows: impl Iterator<Item = (K, (i64, i64))>) -> Self {
        let mut windows: Vec<_> = windows.collect();
        windows.sort_unstable();
        let mut ranges: BTreeMap<(K, i64), i64> = BTreeMap::new();
        for (owner, (first, last)) in windows {
            match ranges.last_entry() {
                Some(mut range) if range.key().0 == owner && first <= *range.get() => {
                    let end = range.get_mut();
                    *end = last.max(*end);
                }
                _ => {
                    ranges.insert((owner, first), last);
                }
            }
        }
        Self(ranges)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the owners, each with the starts of the first and the last chunk of a range.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, i64, i64)> {
        self.0.iter().map(|((owner, first), last)| (*owner, *first, *last))
    }

    /// Returns the starts of the first and the last chunk of all ranges.
    pub(crate) fn extent(&self) -> (i64, i64) {
        let first = self.iter().map(|(_, first, _)| first).min().unwrap_or(i64::MAX);
        (first, self.0.values().copied().max().unwrap_or(i64::MIN))
    }

    /// Removes the ranges of this owner and of all after it, and returns them.
    pub(crate) fn split_off(&mut self, owner: K) -> Self {
        Self(self.0.split_off(&(owner, i64::MIN)))
    }

    /// Removes everything up to the chunk of `owner` that begins at `start`, which has been read.
    pub(crate) fn remove_through(&mut self, owner: K, start: i64) {
        let remaining = self.0.split_off(&(owner, start + 1));
        let read = std::mem::replace(&mut self.0, remaining);
        if let Some(((last_owner, _), last)) = read.last_key_value()
            && *last_owner == owner
            && *last > start
        {
            self.0.insert((owner, start + 1), *last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ChunkRanges;

    #[test]
    fn windows_that_overlap_are_one_range_and_others_are_not() {
        let windows = [(2, (7, 9)), (1, (5, 5)), (1, (20, 30)), (1, (1, 4)), (1, (25, 28)), (1, (4, 6))];
        let mut ranges = ChunkRanges::new(windows.into_iter());
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(1, 1, 6), (1, 20, 30), (2, 7, 9)]);
        assert_eq!(ranges.extent(), (1, 30));
        ranges.remove_through(1, 3);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(1, 4, 6), (1, 20, 30), (2, 7, 9)]);
        ranges.remove_through(1, 6);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(1, 20, 30), (2, 7, 9)]);
        let remainder = ranges.split_off(2);
        assert_eq!(remainder.iter().collect::<Vec<_>>(), [(2, 7, 9)]);
        ranges.remove_through(1, 30);
        assert!(ranges.is_empty());
    }
}
