//! What accounts want to be told of: rules and their bounds, when something is told and when it is not, how messages are
//! written and signed, and when they are sent again.

mod episode;
mod message;
mod rule;
mod sentence;
mod signature;
mod subject;

pub use self::{
    episode::{Decision, Episode, decide},
    message::{Item, Message, Phase},
    rule::{AlertError, Channels, MAX_RULES, MAX_TARGETS, RuleWish, Secret},
    sentence::{sentence, unit, whose},
    signature::sign,
    subject::Subject,
};

/// Seconds to wait after an attempt that failed, the first one first. Together they are a little less than a day.
pub const DELAYS: [i64; 10] = [10, 60, 300, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800];

/// How often a message is sent at the most: once, and again after each of the delays.
#[expect(clippy::cast_possible_wrap, reason = "there are few delays")]
pub const MAX_ATTEMPTS: i64 = DELAYS.len() as i64 + 1;

/// How long to wait after so many attempts, in seconds; none if there is to be no other.
#[must_use]
pub fn delay_after(attempts: i64) -> Option<i64> {
    let attempts = usize::try_from(attempts).ok()?;
    DELAYS.get(attempts.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_for_a_day_at_the_most() {
        assert_eq!([0, 1, 2, 10, 11].map(delay_after), [None, Some(10), Some(60), Some(28_800), None]);
        let all: i64 = DELAYS.iter().sum();
        assert!((80_000..86_400).contains(&all), "{all}");
        assert_eq!(MAX_ATTEMPTS, 11);
    }
}
