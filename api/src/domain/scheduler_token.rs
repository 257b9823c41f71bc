//! Tokens of schedulers. A token is valid for the reports of one scheduler, and shortly beyond its last
//! report.

use chrono::TimeDelta;
use entity::{
    Timestamp,
    api_token::{Model, Scope},
    ids::ApiTokenId,
};

use super::validated::Count;

/// The validity after the last report with the token, in seconds. It covers a weekend without the server,
/// or with a sleeping laptop.
const VALIDITY_SECONDS: i64 = 72 * 3_600;
const VALIDITY: TimeDelta = TimeDelta::seconds(VALIDITY_SECONDS);

/// The lifetime that an exchange may ask for.
pub type LifetimeSeconds = Count<VALIDITY_SECONDS>;

/// The smallest extension that is stored.
const RENEWED_AFTER: TimeDelta = TimeDelta::hours(1);

/// The time for which an ended token is kept, so that lists can show its end.
const RETENTION: TimeDelta = TimeDelta::days(1);

/// The largest number of schedulers' tokens of one user, including those that have ended and are kept.
const MAX_SCHEDULER_TOKENS: u64 = 10_000;

/// The binding of a token to a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The id of the token.
    pub token: ApiTokenId,
    /// The token that was exchanged for this one. `None` if it was a session or a JWT.
    pub parent: Option<ApiTokenId>,
    /// The id of the scheduler. `None` before the first use.
    pub scheduler_id: Option<String>,
    /// The expiry, unless the token is renewed.
    pub expires_at: Option<Timestamp>,
    /// The latest possible expiry. `None` for no limit.
    pub renewable_until: Option<Timestamp>,
}

impl Binding {
    /// Returns the binding of a token. Returns `None` if the token is not a scheduler's.
    #[must_use]
    pub fn of(token: &Model) -> Option<Self> {
        token.is_of_scheduler.then(|| Self {
            token: token.id,
            parent: token.parent_id,
            scheduler_id: token.scheduler_id.clone(),
            expires_at: token.expires_at,
            renewable_until: token.renewable_until,
        })
    }

    /// Returns true if the token may send reports of this scheduler.
    #[must_use]
    pub fn allows(&self, scheduler_id: &str) -> bool {
        self.scheduler_id.as_deref().is_none_or(|bound_scheduler| bound_scheduler == scheduler_id)
    }

    /// Returns the expiry that a report at `now` gives the token. Returns `None` if the extension is too
    /// small to store.
    #[must_use]
    pub fn renewed_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        let end = expiry_at(now, self.renewable_until);
        self.expires_at.is_none_or(|current| end.0 - current.0 >= RENEWED_AFTER).then_some(end)
    }
}

/// Returns the expiry of a scheduler's token that is created or renewed now.
#[must_use]
pub fn expiry_at(now: Timestamp, renewable_until: Option<Timestamp>) -> Timestamp {
    let end = now.0 + VALIDITY;
    renewable_until.map_or(end, |latest| end.min(latest.0)).into()
}

/// Returns the latest expiry of a token whose exchange limits its lifetime. `None` for no limit. Neither
/// renewals nor a longer lifetime go beyond `max_token_expiry`, the expiry of the exchanged credentials.
#[must_use]
pub fn latest_expiry(
    now: Timestamp,
    lifetime_seconds: Option<i64>,
    max_token_expiry: Option<Timestamp>,
) -> Option<Timestamp> {
    let requested = lifetime_seconds.map(|seconds| Timestamp::from(now.0 + TimeDelta::seconds(seconds)));
    [requested, max_token_expiry].into_iter().flatten().min_by_key(|end| end.0)
}

/// Returns the time before which ended tokens of schedulers are removed.
#[must_use]
pub fn removal_cutoff(now: Timestamp) -> Timestamp {
    (now.0 - RETENTION).into()
}

/// Returns true if a user with `token_count` tokens may get another one for credentials that hold
/// `count_of_parent` of them. Credentials hold at most as many as are still free, so that one token does not
/// use up the tokens of the user's other credentials.
#[must_use]
pub fn has_room(token_count: u64, count_of_parent: u64) -> bool {
    count_of_parent < MAX_SCHEDULER_TOKENS.saturating_sub(token_count)
}

/// Returns true if the scopes permit more than sending reports.
#[must_use]
pub fn permits_more_than_ingest(scopes: &[Scope]) -> bool {
    scopes.iter().any(|scope| *scope != Scope::Ingest)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use uuid::Uuid;

    use super::*;

    const HOUR: i64 = 3_600;

    fn at(seconds: i64) -> Timestamp {
        DateTime::from_timestamp(seconds, 0).expect("a time").into()
    }

    #[test]
    fn an_end_is_written_down_once_an_hour_and_never_moved_beyond_what_it_was_exchanged_for() {
        for (expires_at, renewable_until, now, renewed) in [
            (Some(72 * HOUR), None, HOUR - 1, None),
            (Some(72 * HOUR), None, HOUR, Some(73 * HOUR)),
            (Some(72 * HOUR), Some(72 * HOUR), HOUR, None),
            (Some(72 * HOUR), Some(80 * HOUR), 10 * HOUR, Some(80 * HOUR)),
            (None, None, 0, Some(72 * HOUR)),
        ] {
            let binding = Binding {
                token: ApiTokenId(Uuid::nil()),
                parent: None,
                scheduler_id: None,
                expires_at: expires_at.map(at),
                renewable_until: renewable_until.map(at),
            };
            assert_eq!(
                binding.renewed_expiry(at(now)),
                renewed.map(at),
                "{expires_at:?} {renewable_until:?} {now}"
            );
        }
    }

    #[test]
    fn a_lifetime_ends_no_later_than_what_it_was_exchanged_for() {
        for (lifetime, max_token_expiry, latest) in [
            (None, None, None),
            (Some(600), None, Some(1_600)),
            (None, Some(1_200), Some(1_200)),
            (Some(600), Some(1_200), Some(1_200)),
            (Some(600), Some(2_000), Some(1_600)),
        ] {
            assert_eq!(latest_expiry(at(1_000), lifetime, max_token_expiry.map(at)), latest.map(at));
        }
    }

    #[test]
    fn credentials_hold_at_most_as_many_as_are_free() {
        for (token_count, count_of_parent, expected) in [
            (0, 0, true),
            (4_999, 4_999, true),
            (5_000, 5_000, false),
            (5_000, 0, true),
            (7_499, 2_499, true),
            (7_500, 2_500, false),
            (9_999, 0, true),
            (10_000, 0, false),
            (10_001, 0, false),
        ] {
            assert_eq!(has_room(token_count, count_of_parent), expected, "{token_count} {count_of_parent}");
        }
    }

    #[test]
    fn a_token_is_bound_to_one_scheduler_and_before_to_none() {
        let binding = |scheduler_id: Option<&str>| Binding {
            parent: None,
            token: ApiTokenId(Uuid::nil()),
            scheduler_id: scheduler_id.map(str::to_owned),
            expires_at: None,
            renewable_until: None,
        };
        assert!(binding(None).allows("Scheduler-1"));
        assert!(binding(Some("Scheduler-1")).allows("Scheduler-1"));
        assert!(!binding(Some("Scheduler-1")).allows("Scheduler-2"));
    }

    #[test]
    fn what_is_good_for_more_than_reports_is_broad() {
        use Scope::{Admin, Ingest, Read};
        for (scopes, broad) in [
            (&[Ingest][..], false),
            (&[], false),
            (&[Ingest, Read], true),
            (&[Ingest, Admin], true),
            (&[Read], true),
        ] {
            assert_eq!(permits_more_than_ingest(scopes), broad, "{scopes:?}");
        }
    }
}
