//! The pace at which a group of equal subscriptions reads and writes.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

/// The pause between the starts of two rounds, as a multiple of the round's duration. The duration includes
/// the time until half of the readers have taken the payloads. All of the readers need about twice that
/// time, so this pause is twice their time. A server with more readers than it can serve at the full rate
/// therefore combines more changes per round, and keeps half of its time for ingest and queries.
const PAUSE_FACTOR: u32 = 4;

/// The longest wait for the readers before the next round is scheduled.
const MAX_READER_WAIT: Duration = Duration::from_secs(2);

/// The interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The schedule of the rounds of a group.
pub(super) struct RoundPacing {
    interval: Duration,
    next_round: Instant,
}

impl RoundPacing {
    /// Creates a schedule whose first round is due at `now`. Two rounds start at least `interval` apart.
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next_round: now }
    }

    /// Waits until a round is due.
    pub(super) async fn wait_for_round(&self) {
        sleep_until(self.next_round).await;
    }

    /// Waits until the readers have taken the payloads of a round. The wait is bounded: slow readers receive
    /// the newer state.
    pub(super) async fn wait_for_readers(&self, have_taken: impl Fn() -> bool) {
        poll_until(have_taken, MAX_READER_WAIT).await;
    }

    /// Schedules the round after one that began and ended at these times.
    pub(super) fn schedule_next(&mut self, started_at: Instant, ended_at: Instant) {
        self.next_round = started_at + self.interval.max(PAUSE_FACTOR * ended_at.duration_since(started_at));
    }
}

/// Waits until a condition holds, for at most `limit`.
pub(super) async fn poll_until(condition: impl Fn() -> bool, limit: Duration) {
    let poll = async {
        while !condition() {
            sleep(POLL_INTERVAL).await;
        }
    };
    let _ = timeout(limit, poll).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    #[test]
    fn a_round_that_costs_little_is_followed_after_the_interval() {
        let now = Instant::now();
        let mut pacing = RoundPacing::new(INTERVAL, now);
        assert_eq!(pacing.next_round, now);
        for milliseconds in [0, 1, 25] {
            pacing.schedule_next(now, now + Duration::from_millis(milliseconds));
            assert_eq!(pacing.next_round, now + INTERVAL, "{milliseconds}");
        }
    }

    #[test]
    fn a_round_takes_a_quarter_of_the_time_at_most() {
        let now = Instant::now();
        let mut pacing = RoundPacing::new(INTERVAL, now);
        for (milliseconds, pause) in [(26, 104), (300, 1_200), (2_500, 10_000)] {
            pacing.schedule_next(now, now + Duration::from_millis(milliseconds));
            assert_eq!(pacing.next_round, now + Duration::from_millis(pause), "{milliseconds}");
        }
    }

    #[tokio::test]
    async fn readers_that_have_taken_all_are_not_waited_for_and_others_not_for_long() {
        let begun = Instant::now();
        let pacing = RoundPacing::new(INTERVAL, begun);
        pacing.wait_for_round().await;
        pacing.wait_for_readers(|| true).await;
        assert!(begun.elapsed() < MAX_READER_WAIT);
        pacing.wait_for_readers(|| false).await;
        assert!(begun.elapsed() >= MAX_READER_WAIT);
    }
}
