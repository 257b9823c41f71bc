//! What an idle policy means for one cluster: when it is marked, when it is stopped, and why it is left alone.
//!
//! All times are milliseconds of the server's clock. Decisions are made where a report is answered, of what the report
//! says, since only an answer can carry one: a cluster that has work by then is left alone, whatever was said before.

use entity::{cluster, cluster_control, idle_policy::Mode};

use super::{idle_policy::IdlePolicy, tag::Tag};

/// How long somebody may keep a cluster at once, in seconds: 30 days.
pub const MAX_KEPT_SECONDS: i64 = 2_592_000;

/// How a cluster stands towards an idle policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Since when it has had no work; none while it has some.
    pub idle_since: Option<i64>,
    /// Whether one of its tags exempts it.
    pub is_exempt: bool,
    /// When somebody said that it is to be kept, and until when.
    pub kept: Option<(i64, i64)>,
    /// When it was marked, since it has been idle.
    pub warned_at: Option<i64>,
}

/// What becomes of a cluster if it stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// The account wants nothing of idle clusters.
    NoPolicy,
    /// It has work.
    Busy,
    /// One of its tags exempts it.
    Exempt,
    /// It has been idle for some time of what is allowed, or for longer.
    Timed(Times),
}

/// When something is done about an idle cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When it is marked.
    pub warn_at: i64,
    /// When it has been idle for as long as it may.
    pub deadline: i64,
    /// When it was marked, if it was.
    pub warned_at: Option<i64>,
    /// How long before it is stopped it is to be marked.
    warning: i64,
    /// Whether it is stopped at all.
    pub stops: bool,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    Nothing,
    /// It is marked.
    Warn,
    /// It is stopped.
    Stop,
}

impl Standing {
    /// How a cluster stands of which this is stored, if one of its tags exempts it or not.
    #[must_use]
    pub fn of(row: &cluster::Model, control: Option<&cluster_control::Model>, is_exempt: bool) -> Self {
        let milliseconds = |time: entity::Timestamp| time.timestamp_millis();
        let kept = control.and_then(|control| control.kept_at.zip(control.kept_until));
        let warned =
            control.filter(|control| control.warned_idle_since == row.idle_since).and_then(|c| c.warned_at);
        Self {
            idle_since: idle_ms(row).map(|idle| milliseconds(row.last_seen_at) - idle),
            is_exempt,
            kept: kept.map(|(at, until)| (milliseconds(at), milliseconds(until))),
            warned_at: warned.map(milliseconds),
        }
    }
}

/// For how many milliseconds a cluster had no work when it last reported, by its own clock; none if it had some.
#[must_use]
pub fn idle_ms(row: &cluster::Model) -> Option<i64> {
    let since = row.idle_since?.timestamp_millis();
    // What it reports last may be when it closed.
    let until = row.closed_at.map_or(row.reported_at.0, |closed| closed.0.max(row.reported_at.0));
    Some((until.timestamp_millis() - since).max(0))
}

impl IdlePolicy {
    /// What becomes of a cluster that stands so.
    #[must_use]
    pub fn course(&self, standing: &Standing) -> Course {
        let Some(timeout) = self.timeout_seconds.filter(|_| self.mode != Mode::Observe) else {
            return Course::NoPolicy;
        };
        let Some(idle_since) = standing.idle_since else { return Course::Busy };
        if standing.is_exempt {
            return Course::Exempt;
        }
        let warning = 1_000 * self.warn_before_seconds;
        let timed_out = idle_since + 1_000 * timeout;
        let deadline = standing.kept.map_or(timed_out, |(_, until)| timed_out.max(until));
        // Whoever said that it is to be kept was told before, and is told again.
        let warned_at =
            standing.warned_at.filter(|at| standing.kept.is_none_or(|(kept_at, _)| kept_at <= *at));
        let stops = self.mode == Mode::Stop;
        Course::Timed(Times { warn_at: deadline - warning, deadline, warned_at, warning, stops })
    }

    /// Whether one of a cluster's tags exempts it.
    #[must_use]
    pub fn exempts(&self, tags: &[Tag]) -> bool {
        self.exempt_tags.iter().any(|pattern| {
            let is_meant = |tag: &Tag| match &pattern.value {
                None => true,
                Some(value) => tag.value().unwrap_or_default() == value,
            };
            tags.iter().any(|tag| tag.key() == pattern.key && is_meant(tag))
        })
    }
}

impl Times {
    /// What is to be done at a time.
    #[must_use]
    pub fn order(&self, now: i64) -> Order {
        let needs_warning = self.warning > 0 || !self.stops;
        if now < self.warn_at {
            Order::Nothing
        } else if self.warned_at.is_none() && needs_warning {
            Order::Warn
        } else if self.stops && now >= self.stop_at(now) {
            Order::Stop
        } else {
            Order::Nothing
        }
    }

    /// When it is stopped, as far as that can be told at a time: at the deadline if it was marked before, or as long after
    /// it was marked as it is to be before. So a policy that has just been set stops nothing at once.
    #[must_use]
    pub fn stop_at(&self, now: i64) -> i64 {
        let marked = self.warned_at.unwrap_or(now);
        if marked < self.deadline { self.deadline } else { marked + self.warning }
    }
}

#[cfg(test)]
mod tests {
    use entity::list::TagPattern;

    use super::*;

    /// Ten minutes, and a minute of warning.
    fn policy(mode: Mode) -> IdlePolicy {
        IdlePolicy { mode, timeout_seconds: Some(600), warn_before_seconds: 60, exempt_tags: vec![] }
    }

    fn times(policy: &IdlePolicy, standing: Standing) -> Times {
        match policy.course(&standing) {
            Course::Timed(times) => times,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_is_left_alone() {
        let idle = Standing { idle_since: Some(0), ..Standing::default() };
        let stop = policy(Mode::Stop);
        assert_eq!(IdlePolicy::default().course(&idle), Course::NoPolicy);
        assert_eq!(policy(Mode::Observe).course(&idle), Course::NoPolicy);
        assert_eq!(stop.course(&Standing { idle_since: None, ..idle }), Course::Busy);
        assert_eq!(stop.course(&Standing { is_exempt: true, ..idle }), Course::Exempt);
    }

    #[test]
    fn a_cluster_is_marked_and_then_stopped() {
        use Order::{Nothing, Stop, Warn};
        let second = 1_000;
        let idle = Standing { idle_since: Some(0), ..Standing::default() };
        let warned = |at: i64| Standing { warned_at: Some(at * second), ..idle };
        let kept = |at: i64, until: i64, standing: Standing| Standing {
            kept: Some((at * second, until * second)),
            ..standing
        };
        let stop = policy(Mode::Stop);
        let at_once = IdlePolicy { warn_before_seconds: 0, ..stop.clone() };
        for (policy, standing, now, order, stops) in [
            (&stop, idle, 539, Nothing, 600),
            (&stop, idle, 540, Warn, 600),
            (&stop, idle, 599, Warn, 600),
            // Nobody was told yet, however long it has been idle.
            (&stop, idle, 600, Warn, 660),
            (&stop, idle, 9_000, Warn, 9_060),
            (&stop, warned(545), 599, Nothing, 600),
            (&stop, warned(545), 600, Stop, 600),
            (&stop, warned(599), 600, Stop, 600),
            (&stop, warned(600), 659, Nothing, 660),
            (&stop, warned(600), 660, Stop, 660),
            // Kept until after the deadline: told again before it.
            (&stop, kept(550, 1_000, warned(545)), 900, Nothing, 1_000),
            (&stop, kept(550, 1_000, warned(545)), 940, Warn, 1_000),
            (&stop, kept(550, 1_000, warned(941)), 999, Nothing, 1_000),
            (&stop, kept(550, 1_000, warned(941)), 1_000, Stop, 1_000),
            // Kept for less than it may be idle anyway.
            (&stop, kept(10, 20, warned(545)), 600, Stop, 600),
            (&at_once, idle, 599, Nothing, 600),
            (&at_once, idle, 600, Stop, 600),
        ] {
            let times = times(policy, standing);
            assert_eq!(times.order(now * second), order, "{standing:?} at {now}");
            assert_eq!(times.stop_at(now * second), stops * second, "{standing:?} at {now}");
        }
        let warn = policy(Mode::Warn);
        for (standing, now, order) in [(idle, 539, Nothing), (idle, 540, Warn), (warned(540), 9_000, Nothing)]
        {
            assert_eq!(times(&warn, standing).order(now * second), order, "{standing:?} at {now}");
        }
        let warn_at_last = IdlePolicy { warn_before_seconds: 0, ..warn };
        assert_eq!(times(&warn_at_last, idle).order(600 * second), Warn);
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
