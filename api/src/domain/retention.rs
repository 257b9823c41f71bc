//! Retention: the tables whose rows expire, the age that counts, and the default days of each data class.
//! Tables without a rule are kept: clusters with their workers, clients and receipts, usage, and the sizes of
//! what was stored by day.

use entity::{Timestamp, data_policy::DataClass};

/// Milliseconds of a day.
pub const DAY: i64 = 86_400_000;

/// The retention of the rows of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The table.
    pub table: &'static str,
    /// The columns of its primary key after the account.
    pub key: &'static [&'static str],
    /// The data class whose retention applies.
    pub class: DataClass,
    /// An upper limit of the retention, in days. `None` if only the retention of the class applies.
    pub at_most_days: Option<i64>,
    /// The source of a row's age.
    pub age: AgeSource,
    /// The values of `origin` to which the rule is restricted. `None` for all rows.
    pub origins: Option<&'static [&'static str]>,
    /// True if the time is rounded down to its day, so that a row can be a day younger than its time
    /// states.
    pub by_day: bool,
}

/// The source of a row's age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgeSource {
    /// A time column of the row, which belongs to a cluster.
    Row(&'static str),
    /// A time column of the row, which belongs to no cluster.
    RowOfAccount(&'static str),
    /// The last report of the row's cluster. Rows of an active cluster may still change.
    Cluster,
}

/// Origins of errors, by data class. An error of unknown origin may come from user code, so it belongs to
/// that class.
const USER_ORIGINS: &[&str] = &["user", "unknown"];
const DASK_ORIGINS: &[&str] = &["dask"];

/// All rules in the order of removal.
pub const RULES: [Rule; 23] = [
    rule(
        "worker_sample_chunks",
        &["cluster_id", "worker_id", "started_at"],
        DataClass::Basic,
        AgeSource::Row("started_at"),
    )
    .at_most(2),
    rule(
        "cluster_sample_chunks",
        &["cluster_id", "started_at"],
        DataClass::Basic,
        AgeSource::Row("started_at"),
    ),
    rule(
        "function_activity_chunks",
        &["cluster_id", "started_at"],
        DataClass::Tasks,
        AgeSource::Row("started_at"),
    ),
    rule("profiles", &["cluster_id", "started_at", "id"], DataClass::Profiles, AgeSource::Row("started_at")),
    // Its chunks are deleted with it.
    rule("performance_reports", &["id"], DataClass::Profiles, AgeSource::RowOfAccount("created_at")),
    rule("events", &["cluster_id", "occurred_at", "id"], DataClass::Events, AgeSource::Row("occurred_at")),
    rule("log_lines", &["cluster_id", "logged_at", "id"], DataClass::Logs, AgeSource::Row("logged_at")),
    rule("code_snippets", &["hash"], DataClass::Code, AgeSource::RowOfAccount("last_used_at")).by_day(),
    rule("error_occurrences", &["cluster_id", "id"], DataClass::UserErrors, AgeSource::Row("occurred_at"))
        .of(USER_ORIGINS),
    rule("error_groups", &["id"], DataClass::UserErrors, AgeSource::RowOfAccount("last_seen_at"))
        .of(USER_ORIGINS),
    rule("error_occurrences", &["cluster_id", "id"], DataClass::DaskErrors, AgeSource::Row("occurred_at"))
        .of(DASK_ORIGINS),
    rule("error_groups", &["id"], DataClass::DaskErrors, AgeSource::RowOfAccount("last_seen_at"))
        .of(DASK_ORIGINS),
    rule("task_groups", &["cluster_id", "id"], DataClass::Tasks, AgeSource::Cluster),
    rule(
        "computation_task_groups",
        &["cluster_id", "computation_id", "task_group_id"],
        DataClass::Tasks,
        AgeSource::Cluster,
    ),
    rule(
        "computation_shares",
        &["cluster_id", "computation_id", "task_group_id"],
        DataClass::Tasks,
        AgeSource::Cluster,
    ),
    rule("computations", &["cluster_id", "id"], DataClass::Tasks, AgeSource::Cluster),
    rule("spans", &["cluster_id", "id"], DataClass::Tasks, AgeSource::Cluster),
    rule("client_spans", &["cluster_id", "span_id"], DataClass::Tasks, AgeSource::Cluster),
    rule("fine_metric_totals", &["cluster_id"], DataClass::Tasks, AgeSource::Cluster),
    rule("fine_metrics", &["cluster_id", "span_id"], DataClass::Tasks, AgeSource::Cluster),
    rule("cluster_flags", &["cluster_id", "id"], DataClass::Basic, AgeSource::Row("ended_key")),
    rule("alerts", &["id"], DataClass::Basic, AgeSource::RowOfAccount("ended_key")),
    rule("alert_deliveries", &["id"], DataClass::Basic, AgeSource::RowOfAccount("created_at")).at_most(30),
];

/// Returns the default retention of a data class, in days.
#[must_use]
pub const fn default_days(class: DataClass) -> i64 {
    match class {
        DataClass::Basic | DataClass::Code => 90,
        DataClass::Tasks | DataClass::DaskErrors | DataClass::UserErrors => 365,
        DataClass::Profiles | DataClass::Events | DataClass::Logs => 30,
    }
}

impl Rule {
    /// Returns true if the time of a row can be in the future. Such a row expires by the time of its
    /// arrival. The key of an unfinished period is excluded.
    #[must_use]
    pub fn may_be_in_future(&self) -> bool {
        matches!(self.age, AgeSource::Row(column) if column != "ended_key")
    }

    /// Returns the retention, in days. `account_days` is the account's own setting.
    #[must_use]
    pub fn days(&self, account_days: Option<i64>) -> i64 {
        let days = account_days.unwrap_or(default_days(self.class)).max(0);
        self.at_most_days.map_or(days, |max_days| days.min(max_days)).saturating_add(i64::from(self.by_day))
    }

    const fn at_most(self, days: i64) -> Self {
        Self { at_most_days: Some(days), ..self }
    }

    const fn by_day(self) -> Self {
        Self { by_day: true, ..self }
    }

    const fn of(self, origins: &'static [&'static str]) -> Self {
        Self { origins: Some(origins), ..self }
    }
}

/// The retention that one account configures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRetention {
    /// The configured days by data class.
    pub configured_days: Vec<(DataClass, i64)>,
    /// The upper limit for all data classes, in days.
    pub max_days: i64,
}

impl AccountRetention {
    /// Returns the retention of a data class, in days.
    #[must_use]
    pub fn days(&self, class: DataClass) -> i64 {
        let configured =
            self.configured_days.iter().find(|(data_class, _)| *data_class == class).map(|(_, days)| *days);
        configured.unwrap_or(default_days(class)).min(self.max_days)
    }
}

/// Returns the time before which rows expire, in epoch milliseconds.
#[must_use]
pub fn cutoff(now: Timestamp, days: i64) -> i64 {
    now.timestamp_millis().saturating_sub(days.saturating_mul(DAY))
}

const fn rule(table: &'static str, key: &'static [&'static str], class: DataClass, age: AgeSource) -> Rule {
    Rule { table, key, class, at_most_days: None, age, origins: None, by_day: false }
}

/// The largest accepted lead of the clock over the latest time that reports and the running server
/// confirm, in milliseconds. A clock with a larger lead may be wrong, and the rows that it would expire
/// cannot be restored.
const MAX_CLOCK_LEAD_MS: i64 = 7 * DAY;

/// The number of rows that one round may remove of an account in any case.
const ALWAYS_ALLOWED_ROWS: u64 = 50_000;

/// The largest accepted ratio of removed rows to the usual number.
const MAX_ROWS_RATIO: u64 = 20;

/// Returns true if the clock is far ahead of the latest confirmed time.
#[must_use]
pub fn is_far_ahead(now: Timestamp, trusted: Timestamp) -> bool {
    now.timestamp_millis().saturating_sub(trusted.timestamp_millis()) > MAX_CLOCK_LEAD_MS
}

/// Returns the largest number of rows that one round may remove of an account. `usual` is the number that a
/// large round removes of one account.
#[must_use]
pub fn max_rows_of_account(usual: u64) -> u64 {
    usual.saturating_mul(MAX_ROWS_RATIO).max(ALWAYS_ALLOWED_ROWS)
}

/// Returns the number of rows that a large round removes of one account, after a round that removed at most
/// `removed` of one.
#[must_use]
pub fn decayed_round_size(previous: u64, removed: u64) -> u64 {
    // The value decays by a tenth in each smaller round, so that rounds of a month ago have little
    // influence.
    removed.max(previous - previous / 10)
}

/// Weeks, the ranges of partitions. They begin on Mondays, in UTC.
pub mod week {
    use super::DAY;

    /// The milliseconds of a week.
    pub const LENGTH: i64 = 7 * DAY;

    /// The epoch was a Thursday.
    const FIRST_MONDAY: i64 = 4 * DAY;

    /// Returns the start of the week that contains a time. Both are in epoch milliseconds.
    #[must_use]
    pub fn start(milliseconds: i64) -> i64 {
        (milliseconds - FIRST_MONDAY).div_euclid(LENGTH) * LENGTH + FIRST_MONDAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_shortens_and_lengthens_but_not_what_is_bulky() {
        let [workers, clusters] = [RULES[0], RULES[1]];
        assert_eq!([workers.days(None), clusters.days(None)], [2, 90]);
        assert_eq!([workers.days(Some(400)), clusters.days(Some(400))], [2, 400]);
        assert_eq!([workers.days(Some(1)), clusters.days(Some(1))], [1, 1]);
        let code = RULES.iter().find(|rule| rule.table == "code_snippets").expect("code has a rule");
        assert_eq!([code.days(None), code.days(Some(1)), code.days(Some(i64::MAX))], [91, 2, i64::MAX]);
        let now = Timestamp::from(chrono::DateTime::from_timestamp_millis(10 * DAY).expect("a time"));
        assert_eq!(cutoff(now, 3), 7 * DAY);
        assert!(cutoff(now, i64::MAX) < 0);
    }

    #[test]
    fn a_round_is_stopped_by_a_clock_a_week_ahead_and_by_twenty_times_the_usual_rows() {
        let at = |time: i64| Timestamp::from(chrono::DateTime::from_timestamp_millis(time).expect("a time"));
        for (ahead, stops) in [(-DAY, false), (7 * DAY, false), (7 * DAY + 1, true), (400 * DAY, true)] {
            assert_eq!(is_far_ahead(at(500 * DAY + ahead), at(500 * DAY)), stops, "{ahead}");
        }
        assert_eq!([0, 2_500, 2_501].map(max_rows_of_account), [50_000, 50_000, 50_020]);
        assert_eq!(
            [decayed_round_size(0, 5), decayed_round_size(100, 5), decayed_round_size(100, 200)],
            [5, 90, 200]
        );
    }

    #[test]
    fn weeks_begin_on_mondays() {
        // 1970-01-05 was a Monday.
        for (day, start) in [(4, 4), (10, 4), (11, 11), (3, -3), (0, -3)] {
            assert_eq!(week::start(day * DAY), start * DAY, "{day}");
            assert_eq!(week::start(day * DAY + DAY - 1), start * DAY, "{day}");
        }
    }
}
