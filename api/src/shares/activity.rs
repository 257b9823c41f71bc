//! Recent activity at a resource: who besides a holder has asked for slots.

use std::time::{Duration, Instant};

/// The time for which a request for a slot counts as activity. It covers a page that asks again every
/// few seconds.
const ACTIVE_FOR: Duration = Duration::from_secs(10);

/// The two that asked most recently. They suffice to tell if anybody but a given one is active.
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
    pub(super) fn record(&mut self, who: K, now: Instant) {
        if self.latest.is_some_and(|(latest, _)| latest != who) {
            self.previous = self.latest;
        }
        self.latest = Some((who, now));
    }

    /// Returns true if anybody else has asked lately.
    pub(super) fn includes_others(&self, who: K, now: Instant) -> bool {
        let other = [self.latest, self.previous].into_iter().flatten().find(|(other, _)| *other != who);
        other.is_some_and(|(_, asked)| now.duration_since(asked) < ACTIVE_FOR)
    }
}
