//! How fast one may try to sign in after one did not succeed.
//!
//! What is slowed is what guesses: an address, and the guessing at one name from wherever. An address that failed often
//! has to come back later. A name is never locked, or anybody could keep its owner out: who tries it is only held for some
//! seconds, and the right password is right after that.

use std::net::IpAddr;

/// Failures at once that cost nothing: people mistype.
const FREE: i64 = 5;

/// A failure is forgotten after so long, one after the other.
const FORGOTTEN_AFTER_MS: i64 = 60_000;

/// More failures than this make no difference.
const MAX_COUNTED: i64 = 20;

/// How long an address has to wait at the most, and a name is held.
const MAX_WAIT_MS: i64 = 64_000;
const MAX_HOLD_MS: i64 = 8_000;

/// What lately failed of one address or name. Times are epoch milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// When the last of them will be forgotten.
    forgotten_at: i64,
    /// When the last of them was.
    last_at: i64,
}

impl Failures {
    /// One more.
    pub fn add(&mut self, now: i64) {
        let most = now + MAX_COUNTED * FORGOTTEN_AFTER_MS;
        self.forgotten_at = (self.forgotten_at.max(now) + FORGOTTEN_AFTER_MS).min(most);
        self.last_at = now;
    }

    /// One less: what was counted turned out to be none.
    pub fn take_back(&mut self) {
        self.forgotten_at -= FORGOTTEN_AFTER_MS;
    }

    /// Milliseconds that an address with these failures has to wait from now.
    #[must_use]
    pub fn wait_ms(self, now: i64) -> i64 {
        (self.last_at + self.delay_ms(self.last_at, MAX_WAIT_MS) - now).max(0)
    }

    /// Milliseconds that somebody is held who tries a name with these failures.
    #[must_use]
    pub fn hold_ms(self, now: i64) -> i64 {
        self.delay_ms(now, MAX_HOLD_MS)
    }

    fn delay_ms(self, now: i64, most: i64) -> i64 {
        let missing = (self.forgotten_at - now).max(0);
        let count = missing / FORGOTTEN_AFTER_MS + i64::from(missing % FORGOTTEN_AFTER_MS > 0);
        // One second, and twice as long with each more.
        if count < FREE { 0 } else { (1_000 << (count - FREE).min(MAX_COUNTED)).min(most) }
    }
}

/// What counts as one address: whoever has one of IPv6 has all of its network.
#[must_use]
pub fn one_address(address: IpAddr) -> IpAddr {
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
        let (mut failures, mut now) = (Failures::default(), 1_000_000);
        let mut waits = Vec::new();
        for _ in 0..13 {
            failures.add(now);
            waits.push(failures.wait_ms(now) / 1_000);
            now += failures.wait_ms(now);
        }
        // Each minute that was waited forgets one.
        assert_eq!(waits, [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 32, 64, 64]);
        assert_eq!(failures.wait_ms(now), 0, "who waited may try");
        assert_eq!((failures.wait_ms(now - 500), failures.wait_ms(now + 500)), (500, 0));
        // All of it is forgotten in the end.
        assert_eq!(failures.hold_ms(now + MAX_COUNTED * FORGOTTEN_AFTER_MS), 0);
    }

    #[test]
    fn what_is_taken_back_never_was() {
        let mut failures = Failures::default();
        for _ in 0..4 {
            failures.add(0);
        }
        for _ in 0..100 {
            failures.add(0);
            assert_eq!(failures.wait_ms(0), 1_000, "it is under way");
            failures.take_back();
            assert_eq!(failures.wait_ms(0), 0);
        }
    }

    #[test]
    fn a_name_is_held_for_some_seconds_however_much_failed() {
        let mut failures = Failures::default();
        let mut holds = Vec::new();
        for _ in 0..30 {
            holds.push(failures.hold_ms(0) / 1_000);
            failures.add(0);
        }
        assert_eq!(holds[..9], [0, 0, 0, 0, 0, 1, 2, 4, 8]);
        assert!(holds[9..].iter().all(|hold| *hold == 8), "{holds:?}");
        assert_eq!(failures.hold_ms((MAX_COUNTED - FREE + 1) * FORGOTTEN_AFTER_MS), 0);
        assert_eq!(failures.hold_ms((MAX_COUNTED - FREE) * FORGOTTEN_AFTER_MS), 1_000);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        for (address, one) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::1", "2001:db8:1:2::"),
            ("::1", "::1"),
        ] {
            let parse = |text: &str| text.parse::<IpAddr>().expect("an address");
            assert_eq!(one_address(parse(address)), parse(one));
        }
    }
}
