//! Alerts of accounts: rules and their limits, the decision which messages to send, their text and
//! signature, and the retry schedule.

mod cooldown;
mod message;
mod rule;
mod signature;
mod subject;
mod text;

pub use self::{
    cooldown::{Decision, Episode, evaluate_episodes},
    message::{AlertItem, Message, Phase},
    rule::{AlertError, Channels, MAX_RULES, MAX_TARGETS, RuleInput, SigningKey},
    signature::sign,
    subject::Subject,
    text::{alert_text, condition_unit, subject_text},
};

/// The delays before the retries of a delivery, in seconds. Their sum is a little less than a day.
pub const RETRY_DELAYS_SECONDS: [i64; 10] = [10, 60, 300, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800];

/// The largest number of delivery attempts: the first one, and one after each of the delays.
#[expect(clippy::cast_possible_wrap, reason = "the number of delays is small")]
pub const MAX_ATTEMPTS: i64 = RETRY_DELAYS_SECONDS.len() as i64 + 1;

/// Returns the delay after a number of attempts, in seconds. Returns `None` if there is no further
/// attempt.
#[must_use]
pub fn retry_delay_after(attempts: i64) -> Option<i64> {
    let attempts = usize::try_from(attempts).ok()?;
    RETRY_DELAYS_SECONDS.get(attempts.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_for_a_day_at_the_most() {
        assert_eq!([0, 1, 2, 10, 11].map(retry_delay_after), [None, Some(10), Some(60), Some(28_800), None]);
        let all: i64 = RETRY_DELAYS_SECONDS.iter().sum();
        assert!((80_000..86_400).contains(&all), "{all}");
        assert_eq!(MAX_ATTEMPTS, 11);
    }
}
