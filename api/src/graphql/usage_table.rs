//! What an account used, as a table.

use std::collections::BTreeMap;

use async_graphql::{Enum, SimpleObject};
use chrono::{DateTime, Datelike, Utc};
use entity::{ids::UserId, user};

use super::{
    error::ApiError,
    function::FunctionTotals,
    scalar::{BigInt, Date},
    scope::AccountScope,
    usage::{Usage, start_of},
    user::User,
};
use crate::{
    domain::usage,
    store::{CellAt, CellsBy, FunctionCell, FunctionUsage, UsageCell, UsageStep},
};

/// Rows a table of usage may have.
const MAX_ROWS: usize = 10_000;

/// Days, or hours, of users and functions that may be summed up to its rows.
const MAX_CELLS: u64 = 100_000;

/// Days of rows by the hour: hours are not summed up, so each of every cluster is read.
const MAX_HOUR_DAYS: i64 = 7;

/// What has a row of its own in a table of usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum UsageDimension {
    /// Users: with days, the cells of a heat-map.
    User,
    /// Hours, of 7 days at the most.
    Hour,
    /// Days (UTC).
    Day,
    /// Weeks, which begin on Mondays.
    Week,
    /// Months of the calendar.
    Month,
    /// Functions and operations: the prefixes of task groups.
    Function,
}

/// What was used in some time, by a user, by a function, or all of these. Days before `from` and from `to` on are in
/// no row, also where a week or month has some of them.
#[derive(SimpleObject)]
pub(super) struct UsageRow {
    /// When the hour, day, week or month begins; null when all time is put together.
    start: Option<DateTime<Utc>>,
    /// When the next one begins; null when all time is put together.
    end: Option<DateTime<Utc>>,
    /// The day, or the one it begins on; null when all time is put together.
    day: Option<Date>,
    /// The user; null when users are put together, and for clusters whose user left.
    user: Option<User>,
    /// Clusters that were there in that hour or on that day. Null for longer times, of which a cluster may see several
    /// days, and for functions.
    clusters: Option<BigInt>,
    /// What was used; null for a function, of which less is known.
    usage: Option<Usage>,
    /// What the function's tasks used; null when functions are put together.
    function: Option<FunctionTotals>,
}

/// A table of what an account used in some days.
pub(super) async fn table(
    scope: &AccountScope,
    days: (i64, i64),
    dimensions: &[UsageDimension],
) -> Result<Vec<UsageRow>, ApiError> {
    let invalid = |argument, reason| Err(ApiError::InvalidArgument { argument, reason });
    let has = |dimension| dimensions.contains(&dimension);
    let period = match (
        has(UsageDimension::Hour),
        has(UsageDimension::Day),
        has(UsageDimension::Week),
        has(UsageDimension::Month),
    ) {
        (false, false, false, false) => None,
        (true, false, false, false) => Some(Period::Hour),
        (false, true, false, false) => Some(Period::Day),
        (false, false, true, false) => Some(Period::Week),
        (false, false, false, true) => Some(Period::Month),
        _ => return invalid("by", "only one of HOUR, DAY, WEEK and MONTH can be given".to_owned()),
    };
    if period == Some(Period::Hour) && days.1 - days.0 > MAX_HOUR_DAYS {
        let reason = format!("must be at most {MAX_HOUR_DAYS} days after 'from' for rows by the hour");
        return invalid("to", reason);
    }
    let rows = if has(UsageDimension::Function) {
        function_rows(scope, days, has(UsageDimension::User), period).await?
    } else {
        usage_rows(scope, days, has(UsageDimension::User), period).await?
    };
    match rows {
        Some(rows) if rows.len() <= MAX_ROWS => Ok(rows),
        _ => invalid(
            "to",
            format!("there are more than {MAX_ROWS} rows, or {MAX_CELLS} days in them: ask for less time"),
        ),
    }
}

/// Times that have rows of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Hour,
    Day,
    Week,
    Month,
}

impl Period {
    /// The hours since 1970 that the one begins and ends with in which the cell lies.
    fn around(self, time: i64) -> (i64, i64) {
        let of_days = |from: i64, to: i64| (24 * from, 24 * to);
        match self {
            Self::Hour => (time, time + 1),
            Self::Day => of_days(time, time + 1),
            Self::Week => {
                // 1970 began on a Thursday.
                let monday = time - (time + 3).rem_euclid(7);
                of_days(monday, monday + 7)
            }
            Self::Month => {
                let date = start_of(time).unwrap_or_default().date_naive();
                let first = time - i64::from(date.day0());
                of_days(first, first + i64::from(date.num_days_in_month()))
            }
        }
    }

    fn step(period: Option<Self>) -> UsageStep {
        match period {
            // Rates are those of a day, so days are told apart even where they become one row.
            None | Some(Self::Day | Self::Week | Self::Month) => UsageStep::Day,
            Some(Self::Hour) => UsageStep::Hour,
        }
    }
}

/// Where a row stands in its table: by time, then by the user's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    hours: Option<(i64, i64)>,
    user_name: Option<String>,
    user_id: Option<UserId>,
    prefix: Option<String>,
}

impl RowKey {
    fn of(at: &CellAt, period: Option<Period>, prefix: Option<&str>) -> Self {
        Self {
            hours: at.time.and_then(|time| Some(period?.around(time))),
            user_name: at.user.as_ref().map(|user| user.name.clone()),
            user_id: at.user_id,
            prefix: prefix.map(str::to_owned),
        }
    }

    fn row(&self, scope: &AccountScope, user: Option<user::Model>) -> UsageRow {
        let start = |hour: i64| DateTime::from_timestamp(hour * 3600, 0);
        UsageRow {
            start: self.hours.and_then(|(from, _)| start(from)),
            end: self.hours.and_then(|(_, to)| start(to)),
            day: self.hours.map(|(from, _)| Date::from_number(from / 24)),
            user: user.map(|user| User::new(scope, user)),
            clusters: None,
            usage: None,
            function: None,
        }
    }
}

/// What a row is summed up of.
#[derive(Default)]
struct UsageSum {
    user: Option<user::Model>,
    clusters: i64,
    days: BTreeMap<i64, usage::Usage>,
}

/// The rows, unless there are too many cells to make them of.
async fn usage_rows(
    scope: &AccountScope,
    days: (i64, i64),
    user: bool,
    period: Option<Period>,
) -> Result<Option<Vec<UsageRow>>, ApiError> {
    let step = Period::step(period);
    let cells = scope.store.usage_cells(days, CellsBy { user, step }, MAX_CELLS + 1).await?;
    if cells.len() as u64 > MAX_CELLS {
        return Ok(None);
    }
    let mut rows: BTreeMap<RowKey, UsageSum> = BTreeMap::new();
    for UsageCell { at, clusters, usage } in cells {
        let row = rows.entry(RowKey::of(&at, period, None)).or_default();
        let hours = if step == UsageStep::Hour { 24 } else { 1 };
        *row.days.entry(at.time.unwrap_or_default() / hours).or_default() += usage;
        row.clusters += clusters;
        row.user = at.user;
    }
    let counted = matches!(period, Some(Period::Hour | Period::Day));
    Ok(Some(
        rows.into_iter()
            .map(|(key, row)| UsageRow {
                clusters: counted.then_some(BigInt(row.clusters)),
                usage: Some(Usage::of_days(scope, row.days)),
                ..key.row(scope, row.user)
            })
            .collect(),
    ))
}

/// The same by function.
async fn function_rows(
    scope: &AccountScope,
    days: (i64, i64),
    user: bool,
    period: Option<Period>,
) -> Result<Option<Vec<UsageRow>>, ApiError> {
    let step = period.map_or(UsageStep::Whole, |period| Period::step(Some(period)));
    let cells = scope.store.function_cells(days, CellsBy { user, step }, MAX_CELLS + 1).await?;
    if cells.len() as u64 > MAX_CELLS {
        return Ok(None);
    }
    let mut rows: BTreeMap<RowKey, (Option<user::Model>, Option<FunctionUsage>)> = BTreeMap::new();
    for FunctionCell { at, usage } in cells {
        let (user, sum) = rows.entry(RowKey::of(&at, period, Some(&usage.prefix))).or_default();
        *sum = Some(match sum.take() {
            None => usage,
            Some(sum) => sum.plus(&usage),
        });
        *user = at.user;
    }
    Ok(Some(
        rows.into_iter()
            .map(|(key, (user, usage))| UsageRow {
                function: usage.map(FunctionTotals::from),
                ..key.row(scope, user)
            })
            .collect(),
    ))
}
