//! How long data is kept: which tables go by age, by what age, and the days of each class of data unless an account
//! says otherwise. What is in no rule is kept: clusters with their workers, clients and receipts, and usage.

use entity::{Timestamp, data_policy::DataClass};

/// Milliseconds of a day.
pub const DAY: i64 = 86_400_000;

/// What of a table goes, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The table.
    pub table: &'static str,
    /// Its primary key behind the account.
    pub key: &'static [&'static str],
    /// The class of data whose days count.
    pub class: DataClass,
    /// The days, if there are fewer than those of the class.
    pub at_most_days: Option<i64>,
    /// Where the age of a row stands.
    pub age: Age,
    /// Only rows whose `origin` is this, if it says so.
    pub origin: Option<&'static str>,
    /// Whether the time is rounded down to its day, so that a row may be a day younger than it says.
    pub by_day: bool,
}

/// Where the age of a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// In a time of the row itself, which belongs to a cluster.
    Row(&'static str),
    /// In a time of the row itself, which belongs to no cluster.
    RowOfAccount(&'static str),
    /// In when its cluster was last heard of: what is younger than that may still change.
    Cluster,
}

/// What goes by age, in the order in which it is removed.
pub const RULES: [Rule; 20] = [
    rule(
        "worker_sample_chunks",
        &["cluster_id", "worker_id", "started_at"],
        DataClass::Basic,
        Age::Row("started_at"),
    )
    .at_most(2),
    rule("cluster_sample_chunks", &["cluster_id", "started_at"], DataClass::Basic, Age::Row("started_at")),
    rule("profiles", &["cluster_id", "started_at", "id"], DataClass::Profiles, Age::Row("started_at")),
    // Its pieces go with it.
    rule("performance_reports", &["id"], DataClass::Profiles, Age::RowOfAccount("created_at")),
    rule("events", &["cluster_id", "occurred_at", "id"], DataClass::Events, Age::Row("occurred_at")),
    rule("log_lines", &["cluster_id", "logged_at", "id"], DataClass::Logs, Age::Row("logged_at")),
    rule("code_snippets", &["hash"], DataClass::Code, Age::RowOfAccount("last_used_at")).by_day(),
    rule("error_occurrences", &["cluster_id", "id"], DataClass::UserErrors, Age::Row("occurred_at"))
        .of("user"),
    rule("error_groups", &["id"], DataClass::UserErrors, Age::RowOfAccount("last_seen_at")).of("user"),
    rule("error_occurrences", &["cluster_id", "id"], DataClass::DaskErrors, Age::Row("occurred_at"))
        .of("dask"),
    rule("error_groups", &["id"], DataClass::DaskErrors, Age::RowOfAccount("last_seen_at")).of("dask"),
    rule("task_groups", &["cluster_id", "id"], DataClass::Tasks, Age::Cluster),
    rule(
        "computation_task_groups",
        &["cluster_id", "computation_id", "task_group_id"],
        DataClass::Tasks,
        Age::Cluster,
    ),
    rule("computations", &["cluster_id", "id"], DataClass::Tasks, Age::Cluster),
    rule("spans", &["cluster_id", "id"], DataClass::Tasks, Age::Cluster),
    rule("client_spans", &["cluster_id", "span_id"], DataClass::Tasks, Age::Cluster),
    rule("fine_metrics", &["cluster_id", "span_id"], DataClass::Tasks, Age::Cluster),
    rule("cluster_flags", &["cluster_id", "id"], DataClass::Basic, Age::Row("ended_key")),
    rule("alerts", &["id"], DataClass::Basic, Age::RowOfAccount("ended_key")),
    rule("alert_deliveries", &["id"], DataClass::Basic, Age::RowOfAccount("created_at")).at_most(30),
];

/// Days that data of a class is kept when an account does not say otherwise.
#[must_use]
pub const fn default_days(class: DataClass) -> i64 {
    match class {
        DataClass::Basic | DataClass::Code => 90,
        DataClass::Tasks | DataClass::DaskErrors | DataClass::UserErrors => 365,
        DataClass::Profiles | DataClass::Events | DataClass::Logs => 30,
    }
}

impl Rule {
    /// How many days rows are kept, where the account may have said how many.
    #[must_use]
    pub fn days(&self, of_account: Option<i64>) -> i64 {
        let days = of_account.unwrap_or(default_days(self.class)).max(0);
        self.at_most_days.map_or(days, |most| days.min(most)).saturating_add(i64::from(self.by_day))
    }

    const fn at_most(self, days: i64) -> Self {
        Self { at_most_days: Some(days), ..self }
    }

    const fn by_day(self) -> Self {
        Self { by_day: true, ..self }
    }

    const fn of(self, origin: &'static str) -> Self {
        Self { origin: Some(origin), ..self }
    }
}

/// What is older than this goes when rows are kept for so many days.
#[must_use]
pub fn cutoff(now: Timestamp, days: i64) -> i64 {
    now.timestamp_millis().saturating_sub(days.saturating_mul(DAY))
}

const fn rule(table: &'static str, key: &'static [&'static str], class: DataClass, age: Age) -> Rule {
    Rule { table, key, class, at_most_days: None, age, origin: None, by_day: false }
}

/// Weeks, which are the ranges of partitions. They begin on Mondays, UTC.
pub mod week {
    use super::DAY;

    /// Milliseconds of a week.
    pub const LENGTH: i64 = 7 * DAY;

    /// The epoch was a Thursday.
    const FIRST_MONDAY: i64 = 4 * DAY;

    /// When the week began that a time lies in, both in epoch milliseconds.
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
    fn weeks_begin_on_mondays() {
        // 1970-01-05 was a Monday.
        for (day, start) in [(4, 4), (10, 4), (11, 11), (3, -3), (0, -3)] {
            assert_eq!(week::start(day * DAY), start * DAY, "{day}");
            assert_eq!(week::start(day * DAY + DAY - 1), start * DAY, "{day}");
        }
    }
}
