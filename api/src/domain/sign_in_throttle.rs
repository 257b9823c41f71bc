//! Rate limits for sign-in attempts after failures.
//!
//! The limits slow down guessing at one name from one address, at many names from one address, and at one
//! name from any address. Only the first kind is refused for a while. The other two are delayed by some
//! seconds, and the correct password succeeds after the delay: an attacker could otherwise lock out the
//! owner of a name, or everybody else at an address.

use std::net::IpAddr;

/// The number of failures without consequences, for typing mistakes.
const FREE_FAILURES: i64 = 5;

/// The time after which one failure expires, in milliseconds. Failures expire one after the other.
const FORGOTTEN_AFTER_MS: i64 = 60_000;

/// The largest number of failures that are counted.
const MAX_COUNTED: i64 = 20;

/// The longest retry delay of a refused attempt, and the longest delay that one name or one turn of an
/// address adds to an attempt.
const MAX_RETRY_DELAY_MS: i64 = 64_000;
const MAX_ADMISSION_DELAY_MS: i64 = 8_000;

/// The longest time for which an attempt waits for its turn at an address.
const MAX_TURN_DELAY_MS: i64 = 32_000;

/// The recent failures of one key. Times are epoch milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCount {
    /// The time at which the last failure expires.
    expires_at: i64,
    /// The time of the last failure.
    last_at: i64,
}

impl FailureCount {
    /// Adds a failure.
    pub fn add(&mut self, now: i64) {
        let latest_expiry = now + MAX_COUNTED * FORGOTTEN_AFTER_MS;
        self.expires_at = (self.expires_at.max(now) + FORGOTTEN_AFTER_MS).min(latest_expiry);
        self.last_at = now;
    }

    /// Removes a failure, after an attempt that was counted in advance has succeeded.
    pub fn remove_one(&mut self) {
        self.expires_at -= FORGOTTEN_AFTER_MS;
    }

    /// Returns the remaining retry delay of attempts that are refused, in milliseconds.
    #[must_use]
    pub fn retry_delay_ms(self, now: i64) -> i64 {
        (self.last_at + self.delay_ms(self.last_at, MAX_RETRY_DELAY_MS) - now).max(0)
    }

    /// Returns the delay of attempts that are not refused, in milliseconds.
    #[must_use]
    pub fn admission_delay_ms(self, now: i64) -> i64 {
        self.delay_ms(now, MAX_ADMISSION_DELAY_MS)
    }

    fn delay_ms(self, now: i64, max_delay: i64) -> i64 {
        let remaining_ms = (self.expires_at - now).max(0);
        let count = remaining_ms / FORGOTTEN_AFTER_MS + i64::from(remaining_ms % FORGOTTEN_AFTER_MS > 0);
        // One second, doubled by each further failure.
        if count < FREE_FAILURES {
            0
        } else {
            (1_000 << (count - FREE_FAILURES).min(MAX_COUNTED)).min(max_delay)
        }
    }
}

/// The turns of attempts at one address, for all names together. After many failures an address has one turn
/// in some seconds, also for attempts at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressTurns {
    failures: FailureCount,
    /// The time of the last turn.
    last_turn_at: i64,
}

impl AddressTurns {
    /// Counts a failure in advance, and returns the delay until the attempt's turn, in milliseconds.
    ///
    /// # Errors
    /// Returns the retry delay in milliseconds, without counting, if too many attempts wait for a turn.
    pub fn take_turn(&mut self, now: i64) -> Result<i64, i64> {
        let interval = self.failures.admission_delay_ms(now);
        let turn_at = if interval == 0 { now } else { self.last_turn_at.max(now) + interval };
        let delay = turn_at - now;
        if delay > MAX_TURN_DELAY_MS {
            return Err(delay - MAX_TURN_DELAY_MS);
        }
        self.last_turn_at = self.last_turn_at.max(turn_at);
        self.failures.add(now);
        Ok(delay)
    }

    /// Removes a failure, after an attempt that was counted in advance has succeeded.
    pub fn remove_one(&mut self) {
        self.failures.remove_one();
    }
}

/// Returns the address under which failures are counted. For IPv6 it is the /64 network, because its
/// owner can use all addresses in it.
#[must_use]
pub fn failure_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(network.into())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end() {
        let (mut failures, mut now) = (FailureCount::default(), 1_000_000);
        let mut waits = Vec::new();
        for _ in 0..13 {
            failures.add(now);
            waits.push(failures.retry_delay_ms(now) / 1_000);
            now += failures.retry_delay_ms(now);
        }
        // Each minute of waiting lets one failure expire.
        assert_eq!(waits, [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 32, 64, 64]);
        assert_eq!(failures.retry_delay_ms(now), 0, "who waited may try");
        assert_eq!((failures.retry_delay_ms(now - 500), failures.retry_delay_ms(now + 500)), (500, 0));
        // All failures expire in the end.
        assert_eq!(failures.admission_delay_ms(now + MAX_COUNTED * FORGOTTEN_AFTER_MS), 0);
    }

    #[test]
    fn what_is_taken_back_never_was() {
        let mut failures = FailureCount::default();
        for _ in 0..4 {
            failures.add(0);
        }
        for _ in 0..100 {
            failures.add(0);
            assert_eq!(failures.retry_delay_ms(0), 1_000, "it is under way");
            failures.remove_one();
            assert_eq!(failures.retry_delay_ms(0), 0);
        }
    }

    #[test]
    fn a_name_is_held_for_some_seconds_however_much_failed() {
        let mut failures = FailureCount::default();
        let mut holds = Vec::new();
        for _ in 0..30 {
            holds.push(failures.admission_delay_ms(0) / 1_000);
            failures.add(0);
        }
        assert_eq!(holds[..9], [0, 0, 0, 0, 0, 1, 2, 4, 8]);
        assert!(holds[9..].iter().all(|hold| *hold == 8), "{holds:?}");
        assert_eq!(failures.admission_delay_ms((MAX_COUNTED - FREE_FAILURES + 1) * FORGOTTEN_AFTER_MS), 0);
        assert_eq!(failures.admission_delay_ms((MAX_COUNTED - FREE_FAILURES) * FORGOTTEN_AFTER_MS), 1_000);
    }

    #[test]
    fn attempts_at_an_address_take_turns_and_the_line_is_bounded() {
        // At once: five without a delay, and then each a second, two, four or eight after the one before.
        let mut turns = AddressTurns::default();
        let delays: Vec<_> = (0..14).map(|_| turns.take_turn(0)).collect();
        let expected_delays =
            [0, 0, 0, 0, 0, 1, 3, 7, 15, 23, 31].map(|seconds| Ok::<i64, i64>(seconds * 1_000));
        assert_eq!(delays[..11], expected_delays);
        assert_eq!(delays[11..], [Err::<i64, i64>(7_000); 3], "who is refused takes no turn");
        assert_eq!(turns.take_turn(6_999), Err(1));
        assert_eq!(turns.take_turn(7_000), Ok(32_000));
    }

    #[test]
    fn an_address_tries_450_passwords_in_an_hour() {
        let (mut turns, mut now, mut attempts) = (AddressTurns::default(), 0, 0);
        // Attempts are made as early as possible, also when all counts are at their maximum.
        let mut times = Vec::new();
        while now < 4 * 3_600_000 {
            match turns.take_turn(now) {
                Ok(delay) => {
                    times.push(now + delay);
                    attempts += 1;
                }
                Err(wait) => now += wait,
            }
        }
        assert!(attempts > 1_000);
        let attempts_in_hour =
            |begin: i64| times.iter().filter(|at| (begin..begin + 3_600_000).contains(*at)).count();
        assert_eq!(attempts_in_hour(3_600_000), 450);
        // The first hour has the free attempts and the shorter intervals in addition.
        assert_eq!(attempts_in_hour(0), 450 + 7);
    }

    #[test]
    fn a_name_at_an_address_is_tried_once_a_minute_in_the_long_run() {
        let (mut failures, mut now, mut times) = (FailureCount::default(), 0, Vec::new());
        while now < 11 * 3_600_000 {
            failures.add(now);
            times.push(now);
            now += failures.retry_delay_ms(now);
        }
        let attempts_before = |hours: i64| times.iter().filter(|at| **at < hours * 3_600_000).count();
        assert_eq!(attempts_before(11) - attempts_before(1), 600);
        assert!(attempts_before(1) <= 70, "{}", attempts_before(1));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::1", "2001:db8:1:2::"),
            ("::1", "::1"),
        ] {
            let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
            assert_eq!(failure_address(parse(address)), parse(expected));
        }
    }
}
