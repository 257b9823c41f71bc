//! Recent activity at a resource: the holders that requested slots.

use std::time::{Duration, Instant};

/// The time for which a request for a slot counts as activity. It is longer than the polling interval
/// of a web page, some seconds.
const ACTIVE_FOR: Duration = Duration::from_secs(10);

/// The two most recent requesters. They suffice to decide if a requester other than a given one is active.
pub(super) struct Activity<K> {
    latest: Option<(K, Instant)>,
    previous: Option<(K, Instant)>,
}

impl<K> Default for Activity<K> {
    fn default() -> Self {
        Self { latest: None, previous: None }
    }
}

impl<K: Copy + PartialEq> Activity<K> {
    /// Records a request.
    pub(super) fn record(&mut self, requester: K, now: Instant) {
        if self.latest.is_some_and(|(latest, _)| latest != requester) {
            self.previous = self.latest;
        }
        self.latest = Some((requester, now));
    }

    /// Returns true if another requester was active recently.
    pub(super) fn includes_others(&self, requester: K, now: Instant) -> bool {
        let other = [self.latest, self.previous].into_iter().flatten().find(|(other, _)| *other != requester);
        other.is_some_and(|(_, requested_at)| now.duration_since(requested_at) < ACTIVE_FOR)
    }
}
