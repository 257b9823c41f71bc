//! What an account used, as a table.

use std::collections::BTreeMap;

use async_graphql::{Enum, SimpleObject};
use chrono::{DateTime, Datelike, Utc};
use entity::{ids::UserId, user};

use super::{
    cluster_tag::Tag,
    error::ApiError,
    function::FunctionTotals,
    in_place::{Placed, in_place_members},
    scalar::{BigInt, Date},
    scope::AccountScope,
    usage::{Usage, start_of},
    user::User,
};
use crate::{
    domain::{tag, usage},
    store::{CellAt, CellsBy, FunctionCell, FunctionUsage, Tags, UsageCell, UsageStep},
};

/// Rows a table of usage may have.
const MAX_ROWS: usize = 10_000;

/// Days, or hours, of users and functions that may be summed up to its rows.
const MAX_CELLS: u64 = 100_000;

/// Days of rows by tag or version, for the same reason.
const MAX_CLUSTER_DAYS: i64 = 31;

/// Characters of the name of a package, or of a tag's key.
const MAX_NAME: usize = 200;

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
    /// Tags of clusters, of 31 days at the most: what a cluster used is in the row of each of its tags, so rows add up only
    /// with `tagKey`.
    Tag,
    /// Versions of a package, as the schedulers have it, of 31 days at the most.
    Version,
}

/// What rows a table is to have.
pub(super) struct TableArguments {
    pub(super) days: (i64, i64),
    pub(super) by: Vec<UsageDimension>,
    pub(super) tag_key: Option<String>,
    pub(super) package: String,
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
    user: Option<Placed<User>>,
    /// The tag; null when tags are put together, and for clusters without one.
    tag: Option<Placed<Tag>>,
    /// The version; null when versions are put together, and for clusters of which it is not known.
    version: Option<String>,
    /// Clusters that were there in that hour or on that day. Null for longer times, of which a cluster may see several
    /// days, and for functions.
    clusters: Option<BigInt>,
    /// What was used; null for a function, of which less is known.
    usage: Option<Placed<Usage>>,
    /// What the function's tasks used; null when functions are put together.
    function: Option<Placed<FunctionTotals>>,
}

in_place_members! {
    UsageRow: start, end, day, version, clusters;
        user: Option<Placed<User>>, tag: Option<Placed<Tag>>, usage: Option<Placed<Usage>>,
        function: Option<Placed<FunctionTotals>>
}

/// A table of what an account used in some days.
pub(super) async fn table(
    scope: &AccountScope,
    arguments: TableArguments,
) -> Result<Vec<UsageRow>, ApiError> {
    let TableArguments { days, by, tag_key, package } = arguments;
    let invalid = |argument, reason| Err(ApiError::InvalidArgument { argument, reason });
    let has = |dimension| by.contains(&dimension);
    for (argument, text) in [("tagKey", tag_key.as_deref()), ("package", Some(package.as_str()))] {
        if text.is_some_and(|text| text.chars().count() > MAX_NAME || text.contains('\0')) {
            return invalid(
                argument,
                format!("must have at most {MAX_NAME} characters, none of them U+0000"),
            );
        }
    }
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
    if (has(UsageDimension::Tag) || has(UsageDimension::Version)) && days.1 - days.0 > MAX_CLUSTER_DAYS {
        let reason =
            format!("must be at most {MAX_CLUSTER_DAYS} days after 'from' for rows by tag or version");
        return invalid("to", reason);
    }
    let cells = CellsBy {
        user: has(UsageDimension::User),
        step: Period::step(period),
        tags: has(UsageDimension::Tag).then(|| tag_key.map_or(Tags::All, Tags::OfKey)),
        package: has(UsageDimension::Version).then_some(package),
    };
    let rows = if has(UsageDimension::Function) {
        function_rows(scope, days, cells, period).await?
    } else {
        usage_rows(scope, days, cells, period).await?
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

/// Where a row stands in its table: by time, then by the user's name, the tag and the version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    hours: Option<(i64, i64)>,
    user_name: Option<String>,
    user_id: Option<UserId>,
    tag: Option<tag::Tag>,
    version: Option<String>,
    prefix: Option<String>,
}

impl RowKey {
    fn of(at: &CellAt, period: Option<Period>, prefix: Option<&str>) -> Self {
        Self {
            hours: at.time.and_then(|time| Some(period?.around(time))),
            user_name: at.user.as_ref().map(|user| user.name.clone()),
            user_id: at.user_id,
            tag: at.tag.clone(),
            version: at.version.clone(),
            prefix: prefix.map(str::to_owned),
        }
    }

    fn row(&self, scope: &AccountScope, user: Option<user::Model>) -> UsageRow {
        let start = |hour: i64| DateTime::from_timestamp(hour * 3600, 0);
        UsageRow {
            start: self.hours.and_then(|(from, _)| start(from)),
            end: self.hours.and_then(|(_, to)| start(to)),
            day: self.hours.map(|(from, _)| Date::from_number(from / 24)),
            user: user.map(|user| Placed(User::new(scope, user))),
            tag: self.tag.as_ref().map(|tag| Placed(tag.into())),
            version: self.version.clone(),
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
    by: CellsBy,
    period: Option<Period>,
) -> Result<Option<Vec<UsageRow>>, ApiError> {
    let cells = scope.store.usage_cells(days, &by, MAX_CELLS + 1).await?;
    if cells.len() as u64 > MAX_CELLS {
        return Ok(None);
    }
    let mut rows: BTreeMap<RowKey, UsageSum> = BTreeMap::new();
    for UsageCell { at, clusters, usage } in cells {
        let row = rows.entry(RowKey::of(&at, period, None)).or_default();
        let hours = if by.step == UsageStep::Hour { 24 } else { 1 };
        *row.days.entry(at.time.unwrap_or_default() / hours).or_default() += usage;
        row.clusters += clusters;
        row.user = at.user;
    }
    let counted = matches!(period, Some(Period::Hour | Period::Day));
    Ok(Some(
        rows.into_iter()
            .map(|(key, row)| UsageRow {
                clusters: counted.then_some(BigInt(row.clusters)),
                usage: Some(Placed(Usage::of_days(scope, row.days))),
                ..key.row(scope, row.user)
            })
            .collect(),
    ))
}

/// The same by function.
async fn function_rows(
    scope: &AccountScope,
    days: (i64, i64),
    by: CellsBy,
    period: Option<Period>,
) -> Result<Option<Vec<UsageRow>>, ApiError> {
    // Functions have no costs, for which days would have to be told apart.
    let step = if period.is_none() { UsageStep::Whole } else { by.step };
    let cells = scope.store.function_cells(days, &CellsBy { step, ..by }, MAX_CELLS + 1).await?;
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
                function: usage.map(|usage| Placed(usage.into())),
                ..key.row(scope, user)
            })
            .collect(),
    ))
}
