//! Effect of an idle policy on one cluster: the times of its warning and stop, and the reasons for an
//! exemption.
//!
//! All times are milliseconds of the server's clock. A decision is made while a report is answered, from
//! the content of that report, because only the response can carry it. So a cluster with new work
//! continues to run, whatever earlier responses ordered.

use entity::{Timestamp, cluster, cluster_control, idle_policy::Mode};

use super::{idle_policy::IdlePolicy, tag::Tag};

/// The longest time for which a user can keep a cluster with one request, in seconds: 30 days.
pub const MAX_KEPT_SECONDS: i64 = 2_592_000;

/// The facts about a cluster that an idle policy needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleFacts {
    /// The time since which it has no work. `None` while it has work.
    pub idle_since: Option<i64>,
    /// The time before which idleness does not count: the first report, the first report after a silence,
    /// or the last change of its tags.
    pub idle_counts_from: i64,
    /// True if one of its tags exempts it.
    pub is_exempt: bool,
    /// The time at which a user decided to keep it, and the time until which it is kept.
    pub kept: Option<(i64, i64)>,
    /// The time of the warning in the present idle period.
    pub warned_at: Option<i64>,
}

/// The consequence of an idle policy for a cluster that stays idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleVerdict {
    /// The account has no policy that acts on idle clusters.
    NoPolicy,
    /// The cluster has work.
    Busy,
    /// One of its tags exempts it.
    Exempt,
    /// The idle timeout is running or has passed.
    Timed(IdleSchedule),
}

/// The times of the actions on an idle cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSchedule {
    /// The time of the warning.
    pub warn_at: i64,
    /// The time at which the idle timeout passes.
    pub deadline: i64,
    /// The time of the last warning, if it applies to this deadline.
    pub warned_at: Option<i64>,
    /// The time between the warning and the stop, in milliseconds.
    warning: i64,
    /// True if the policy stops the cluster.
    pub stops: bool,
}

/// The action to take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleAction {
    /// No action.
    Nothing,
    /// Warn that the cluster is idle.
    Warn,
    /// Stop the cluster.
    Stop,
}

impl IdleFacts {
    /// Collects the facts from the stored rows of a cluster.
    #[must_use]
    pub fn from_rows(
        row: &cluster::Model,
        control: Option<&cluster_control::Model>,
        is_exempt: bool,
    ) -> Self {
        let milliseconds = |time: Timestamp| time.timestamp_millis();
        let kept = control.and_then(|control| control.kept_at.zip(control.kept_until));
        let warned =
            control.filter(|control| control.warned_idle_since == row.idle_since).and_then(|c| c.warned_at);
        let first_seen = milliseconds(row.first_seen_at);
        let restarted_at = control.and_then(|control| control.counted_since).map(milliseconds);
        let idle_counts_from = restarted_at.map_or(first_seen, |at| at.max(first_seen));
        Self {
            idle_counts_from,
            idle_since: idle_ms(row).map(|idle| milliseconds(row.last_seen_at) - idle),
            is_exempt,
            kept: kept.map(|(at, until)| (milliseconds(at), milliseconds(until))),
            warned_at: warned.map(milliseconds),
        }
    }

    /// Returns the start of the timeout under a policy that is valid since `holds_since`. Returns `None`
    /// while there is work. Earlier idleness does not count: nobody could know that it would end the
    /// cluster, or a user decided to keep the cluster.
    #[must_use]
    pub fn timeout_start(&self, holds_since: i64) -> Option<i64> {
        let begins = self.idle_since?.max(self.idle_counts_from).max(holds_since);
        Some(self.kept.map_or(begins, |(_, until)| begins.max(until)))
    }
}

/// Returns the idle time as of the last report, by the scheduler's clock, in milliseconds. Returns `None`
/// if the cluster had work.
#[must_use]
pub fn idle_ms(row: &cluster::Model) -> Option<i64> {
    idle_ms_from_columns(row.idle_since, row.closed_at, row.reported_at)
}

/// The same as [`idle_ms`], from the columns of the cluster's row.
#[must_use]
pub fn idle_ms_from_columns(
    idle_since: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    reported_at: Timestamp,
) -> Option<i64> {
    let since = idle_since?.timestamp_millis();
    // The last report can be that of the cluster's close.
    let until = closed_at.map_or(reported_at.0, |closed_at| closed_at.0.max(reported_at.0));
    Some((until.timestamp_millis() - since).max(0))
}

impl IdlePolicy {
    /// Returns the consequence of this policy for a cluster.
    #[must_use]
    pub fn verdict_for(&self, facts: &IdleFacts) -> IdleVerdict {
        let Some(timeout) = self.timeout_seconds.filter(|_| self.mode != Mode::Observe) else {
            return IdleVerdict::NoPolicy;
        };
        let Some(begins) = facts.timeout_start(self.changed_at) else { return IdleVerdict::Busy };
        if facts.is_exempt {
            return IdleVerdict::Exempt;
        }
        let warning = 1_000 * self.warn_before_seconds;
        let deadline = begins + 1_000 * timeout;
        // A warning from before the start of the timeout announced another deadline.
        let warned_at = facts.warned_at.filter(|at| begins <= *at);
        let stops = self.mode == Mode::Stop;
        IdleVerdict::Timed(IdleSchedule { warn_at: deadline - warning, deadline, warned_at, warning, stops })
    }

    /// Returns true if one of the cluster's tags exempts it.
    #[must_use]
    pub fn exempts(&self, tags: &[Tag]) -> bool {
        self.exempt_tags.iter().any(|pattern| {
            let matches_value = |tag: &Tag| match &pattern.value {
                None => true,
                Some(value) => tag.value().unwrap_or_default() == value,
            };
            tags.iter().any(|tag| tag.key() == pattern.key && matches_value(tag))
        })
    }
}

impl IdleSchedule {
    /// Returns the action to take at `now`.
    #[must_use]
    pub fn action_at(&self, now: i64) -> IdleAction {
        let needs_warning = self.warning > 0 || !self.stops;
        if now < self.warn_at {
            IdleAction::Nothing
        } else if self.warned_at.is_none() && needs_warning {
            IdleAction::Warn
        } else if self.stops && now >= self.stop_at(now) {
            IdleAction::Stop
        } else {
            IdleAction::Nothing
        }
    }

    /// Returns the time of the stop, as known at `now`: the deadline if the warning was earlier, or else
    /// the warning's time plus the warning period. So a new policy does not stop a cluster at once.
    #[must_use]
    pub fn stop_at(&self, now: i64) -> i64 {
        let marked = self.warned_at.unwrap_or(now);
        if marked < self.deadline { self.deadline } else { marked + self.warning }
    }
}

#[cfg(test)]
mod tests {
    use entity::json_columns::TagPattern;

    use super::*;

    /// A policy with a timeout of ten minutes and a warning period of one minute.
    fn policy(mode: Mode) -> IdlePolicy {
        IdlePolicy {
            mode,
            timeout_seconds: Some(600),
            warn_before_seconds: 60,
            exempt_tags: vec![],
            changed_at: 0,
        }
    }

    fn times(policy: &IdlePolicy, facts: IdleFacts) -> IdleSchedule {
        match policy.verdict_for(&facts) {
            IdleVerdict::Timed(times) => times,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_is_left_alone() {
        let idle = IdleFacts { idle_since: Some(0), ..IdleFacts::default() };
        let stop = policy(Mode::Stop);
        assert_eq!(IdlePolicy::default().verdict_for(&idle), IdleVerdict::NoPolicy);
        assert_eq!(policy(Mode::Observe).verdict_for(&idle), IdleVerdict::NoPolicy);
        assert_eq!(stop.verdict_for(&IdleFacts { idle_since: None, ..idle }), IdleVerdict::Busy);
        assert_eq!(stop.verdict_for(&IdleFacts { is_exempt: true, ..idle }), IdleVerdict::Exempt);
    }

    #[test]
    fn a_cluster_is_marked_and_then_stopped() {
        use IdleAction::{Nothing, Stop, Warn};
        let second = 1_000;
        let idle = IdleFacts { idle_since: Some(0), ..IdleFacts::default() };
        let warned = |at: i64| IdleFacts { warned_at: Some(at * second), ..idle };
        let kept_alive = |at: i64, until: i64, facts: IdleFacts| IdleFacts {
            kept: Some((at * second, until * second)),
            ..facts
        };
        let counted_from =
            |since: i64, facts: IdleFacts| IdleFacts { idle_counts_from: since * second, ..facts };
        let stop = policy(Mode::Stop);
        let at_once = IdlePolicy { warn_before_seconds: 0, ..stop.clone() };
        let changed_late = IdlePolicy { changed_at: 5_000 * second, ..at_once.clone() };
        for (policy, facts, now, expected_action, expected_stop) in [
            (&stop, idle, 539, Nothing, 600),
            (&stop, idle, 540, Warn, 600),
            (&stop, idle, 599, Warn, 600),
            // No warning was given yet, however long the cluster has been idle.
            (&stop, idle, 600, Warn, 660),
            (&stop, idle, 9_000, Warn, 9_060),
            (&stop, warned(545), 599, Nothing, 600),
            (&stop, warned(545), 600, Stop, 600),
            (&stop, warned(599), 600, Stop, 600),
            (&stop, warned(600), 659, Nothing, 660),
            (&stop, warned(600), 660, Stop, 660),
            // The timeout starts when the keep period ends, and a new warning is due.
            (&stop, kept_alive(550, 1_000, warned(545)), 1_539, Nothing, 1_600),
            (&stop, kept_alive(550, 1_000, warned(545)), 1_540, Warn, 1_600),
            (&stop, kept_alive(550, 1_000, warned(1_541)), 1_599, Nothing, 1_600),
            (&stop, kept_alive(550, 1_000, warned(1_541)), 1_600, Stop, 1_600),
            // The keep period is shorter than the timeout and starts before the idle period.
            (&stop, kept_alive(10, 20, warned(565)), 619, Nothing, 620),
            (&stop, kept_alive(10, 20, warned(565)), 620, Stop, 620),
            (&stop, kept_alive(-20, -10, warned(545)), 600, Stop, 600),
            // The cluster was already idle for long at the first report, or at the first report after a
            // silence.
            (&stop, counted_from(5_000, idle), 5_539, Nothing, 5_600),
            (&stop, counted_from(5_000, idle), 5_540, Warn, 5_600),
            (&stop, counted_from(5_000, warned(545)), 5_540, Warn, 5_600),
            (&stop, counted_from(5_000, warned(5_541)), 5_600, Stop, 5_600),
            (&at_once, counted_from(5_000, idle), 5_599, Nothing, 5_600),
            (&at_once, counted_from(5_000, idle), 5_600, Stop, 5_600),
            // The cluster was already idle for long when the account set its policy.
            (&changed_late, idle, 5_599, Nothing, 5_600),
            (&changed_late, idle, 5_600, Stop, 5_600),
            (&changed_late, counted_from(6_000, idle), 6_599, Nothing, 6_600),
            (&at_once, idle, 599, Nothing, 600),
            (&at_once, idle, 600, Stop, 600),
        ] {
            let times = times(policy, facts);
            assert_eq!(times.action_at(now * second), expected_action, "{facts:?} at {now}");
            assert_eq!(times.stop_at(now * second), expected_stop * second, "{facts:?} at {now}");
        }
        let warn = policy(Mode::Warn);
        for (facts, now, expected_action) in
            [(idle, 539, Nothing), (idle, 540, Warn), (warned(540), 9_000, Nothing)]
        {
            assert_eq!(times(&warn, facts).action_at(now * second), expected_action, "{facts:?} at {now}");
        }
        let warn_at_last = IdlePolicy { warn_before_seconds: 0, ..warn };
        assert_eq!(times(&warn_at_last, idle).action_at(600 * second), Warn);
    }

    #[test]
    fn tags_exempt() {
        let pattern = |key: &str, value: Option<&str>| TagPattern {
            key: key.to_owned(),
            value: value.map(str::to_owned),
        };
        let tag = |key: &str, value: Option<&str>| Tag::new(key, value).expect("it is a tag");
        let tags = [tag("team", Some("risk")), tag("keep", None)];
        for (pattern, exempts) in [
            (pattern("team", None), true),
            (pattern("team", Some("risk")), true),
            (pattern("team", Some("web")), false),
            (pattern("team", Some("")), false),
            (pattern("keep", None), true),
            (pattern("keep", Some("")), true),
            (pattern("Keep", None), false),
        ] {
            let policy = IdlePolicy { exempt_tags: vec![pattern], ..policy(Mode::Stop) };
            assert_eq!(policy.exempts(&tags), exempts, "{policy:?}");
        }
        assert!(!policy(Mode::Stop).exempts(&tags));
    }
}
