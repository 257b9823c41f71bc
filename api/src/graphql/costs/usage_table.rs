//! The usage of an account as a table.

use std::collections::{BTreeMap, HashMap, HashSet};

use async_graphql::{Enum, SimpleObject};
use chrono::{DateTime, Datelike, Utc};
use entity::{ids::UserId, user};

use super::usage::{Usage, UsageScope, start_of_day};
use crate::{
    domain::{tag, usage},
    graphql::{
        access::user::User,
        clusters::{cluster_list::ClusterFilter, cluster_tag::Tag},
        computations::function::FunctionTotals,
        engine::{
            error::ApiError,
            projection::{Inline, inline_members},
            scalar::{BigInt, Date},
            scope::AccountScope,
        },
    },
    store::{CellKey, FunctionCell, FunctionUsage, GroupBy, TagGrouping, UsageCell, UsageColumns, UsageStep},
};

/// The maximum number of rows of a table.
const MAX_ROWS: usize = 10_000;

/// The maximum number of days, or hours, of users and functions that are summed up to the rows.
const MAX_CELLS: u64 = 100_000;

/// The maximum number of days for rows by tag or version, because they are summed up from the hours of
/// single clusters.
const MAX_CLUSTER_DAYS: i64 = 31;

/// The maximum length of the name of a package or of a tag's key, in characters.
const MAX_NAME: usize = 200;

/// The maximum number of days for rows by hour: hours are not summed up in advance, so those of every
/// cluster are read.
const MAX_HOUR_DAYS: i64 = 7;

/// The dimensions of a usage table. Each combination of their values is a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum UsageDimension {
    /// The users. With DAY, the rows are the cells of a heat map.
    User,
    /// The hours (UTC). The period may have at most 7 days.
    Hour,
    /// The days (UTC).
    Day,
    /// The weeks (UTC), which begin on Mondays.
    Week,
    /// The calendar months (UTC).
    Month,
    /// The functions and operations: the prefixes of task groups.
    Function,
    /// The tags of clusters. The period may have at most 31 days. A cluster's usage counts in the row of each
    /// of its tags, so the rows add up to the total only with `tagKey`.
    Tag,
    /// The versions of a package in the schedulers' environments. The period may have at most 31 days.
    Version,
}

/// The arguments of a usage table.
pub(crate) struct TableArguments {
    pub(crate) days: (i64, i64),
    pub(crate) clusters: Option<ClusterFilter>,
    pub(crate) by: Vec<UsageDimension>,
    pub(crate) tag_key: Option<String>,
    pub(crate) package: String,
    /// The columns that the selected fields of `usage` need.
    pub(crate) usage_columns: UsageColumns,
}

/// The usage in a period, of a user, a function, or another combination of dimensions. Days before
/// `from`, and `to` and later days, count in no row, even if a week or month contains them.
#[derive(SimpleObject)]
pub(crate) struct UsageRow {
    /// The start of the hour, day, week or month. Null if the table has no dimension of time.
    start: Option<DateTime<Utc>>,
    /// The end of the hour, day, week or month. Null if the table has no dimension of time.
    end: Option<DateTime<Utc>>,
    /// The day on which the hour, day, week or month starts. Null if the table has no dimension of time.
    day: Option<Date>,
    /// The user. Null if the table has no dimension USER, and for the clusters of users who left the
    /// account.
    user: Option<Inline<User>>,
    /// The tag. Null if the table has no dimension TAG, and for clusters without a tag.
    tag: Option<Inline<Tag>>,
    /// The version. Null if the table has no dimension VERSION, and for clusters whose version is
    /// unknown.
    version: Option<String>,
    /// The number of clusters in the hour or on the day. Null for longer periods, because a cluster may
    /// exist on several days, and for functions.
    clusters: Option<BigInt>,
    /// The usage. Null if the table has the dimension FUNCTION; see `function`.
    usage: Option<Inline<Usage>>,
    /// The usage of the function's tasks. Null if the table has no dimension FUNCTION.
    function: Option<Inline<FunctionTotals>>,
}

inline_members! {
    UsageRow: start, end, day, version, clusters;
        user: Option<Inline<User>>, tag: Option<Inline<Tag>>, usage: Option<Inline<Usage>>,
        function: Option<Inline<FunctionTotals>>
}

/// Returns a table of the usage of an account on some days.
pub(crate) async fn load_usage_table(
    scope: &AccountScope,
    arguments: TableArguments,
) -> Result<Vec<UsageRow>, ApiError> {
    let TableArguments { days, clusters, by, tag_key, package, usage_columns } = arguments;
    let invalid = |argument, reason| Err(ApiError::InvalidArgument { argument, reason });
    let has_dimension = |dimension| by.contains(&dimension);
    for (argument, text) in [("tagKey", tag_key.as_deref()), ("package", Some(package.as_str()))] {
        if text.is_some_and(|text| text.chars().count() > MAX_NAME || text.contains('\0')) {
            return invalid(
                argument,
                format!("must have at most {MAX_NAME} characters, none of them U+0000"),
            );
        }
    }
    let period = match (
        has_dimension(UsageDimension::Hour),
        has_dimension(UsageDimension::Day),
        has_dimension(UsageDimension::Week),
        has_dimension(UsageDimension::Month),
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
    if (has_dimension(UsageDimension::Tag) || has_dimension(UsageDimension::Version))
        && days.1 - days.0 > MAX_CLUSTER_DAYS
    {
        let reason =
            format!("must be at most {MAX_CLUSTER_DAYS} days after 'from' for rows by tag or version");
        return invalid("to", reason);
    }
    let grouping = GroupBy {
        clusters: UsageScope::resolve(scope, days, clusters, None).await?.clusters,
        user: has_dimension(UsageDimension::User),
        step: Period::usage_step(period),
        tags: has_dimension(UsageDimension::Tag)
            .then(|| tag_key.map_or(TagGrouping::All, TagGrouping::OfKey)),
        package: has_dimension(UsageDimension::Version).then_some(package),
    };
    let rows = if has_dimension(UsageDimension::Function) {
        function_rows(scope, days, grouping, period).await?
    } else {
        usage_rows(scope, days, grouping, usage_columns, period).await?
    };
    match rows {
        Some(rows) if rows.len() <= MAX_ROWS => Ok(rows),
        _ => invalid(
            "to",
            format!(
                "there are more than {MAX_ROWS} rows, or {MAX_CELLS} days in them: request a shorter period"
            ),
        ),
    }
}

/// The periods that rows can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Hour,
    Day,
    Week,
    Month,
}

impl Period {
    /// Returns the hours since 1970 at which the period that contains a cell begins and ends.
    fn hours_of_period(self, time: i64) -> (i64, i64) {
        let hours_of_days = |from: i64, to: i64| (24 * from, 24 * to);
        match self {
            Self::Hour => (time, time + 1),
            Self::Day => hours_of_days(time, time + 1),
            Self::Week => {
                // 1970-01-01 was a Thursday.
                let monday = time - (time + 3).rem_euclid(7);
                hours_of_days(monday, monday + 7)
            }
            Self::Month => {
                let date = start_of_day(time).unwrap_or_default().date_naive();
                let first = time - i64::from(date.day0());
                hours_of_days(first, first + i64::from(date.num_days_in_month()))
            }
        }
    }

    fn usage_step(period: Option<Self>) -> UsageStep {
        match period {
            // Rates change from day to day, so days are read separately even if they become one row.
            None | Some(Self::Day | Self::Week | Self::Month) => UsageStep::Day,
            Some(Self::Hour) => UsageStep::Hour,
        }
    }
}

/// The key of a row, in the order of the table: by time, then by the user's name, the tag and the
/// version.
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
    fn new(cell: &CellKey, members: &Members, period: Option<Period>, prefix: Option<&str>) -> Self {
        let user = cell.user_id.and_then(|id| members.get(&id));
        Self {
            hours: cell.time.and_then(|time| Some(period?.hours_of_period(time))),
            user_name: user.map(|user| user.name.clone()),
            user_id: cell.user_id,
            tag: cell.tag.clone(),
            version: cell.version.clone(),
            prefix: prefix.map(str::to_owned),
        }
    }

    fn empty_row(&self, scope: &AccountScope, members: &Members) -> UsageRow {
        let user = self.user_id.and_then(|id| members.get(&id)).cloned();
        let start = |hour: i64| DateTime::from_timestamp(hour * 3600, 0);
        UsageRow {
            start: self.hours.and_then(|(from, _)| start(from)),
            end: self.hours.and_then(|(_, to)| start(to)),
            day: self.hours.map(|(from, _)| Date::from_number(from / 24)),
            user: user.map(|user| Inline(User::new(scope, user))),
            tag: self.tag.as_ref().map(|tag| Inline(tag.into())),
            version: self.version.clone(),
            clusters: None,
            usage: None,
            function: None,
        }
    }
}

/// The sums of a row.
#[derive(Default)]
struct UsageSum {
    clusters: i64,
    /// The day and the usage of each cell, in any order.
    cells: Vec<(i64, usage::Usage)>,
}

impl UsageSum {
    /// Returns the usage by day, in the order of the days.
    fn into_days(mut self) -> Vec<(i64, usage::Usage)> {
        self.cells.sort_by_key(|(day, _)| *day);
        self.cells.dedup_by(|(later_day, later), (day, usage)| {
            let is_same_day = later_day == day;
            if is_same_day {
                *usage += *later;
            }
            is_same_day
        });
        self.cells
    }
}

/// The members of the account among the users of a table.
type Members = HashMap<UserId, user::Model>;

async fn load_members<'a>(
    scope: &AccountScope,
    cells: impl Iterator<Item = &'a CellKey>,
) -> Result<Members, ApiError> {
    let users: HashSet<UserId> = cells.filter_map(|cell| cell.user_id).collect();
    Ok(scope.loader.load_many(users).await?)
}

/// Returns the rows; `None` if they would be summed from too many cells.
async fn usage_rows(
    scope: &AccountScope,
    days: (i64, i64),
    grouping: GroupBy,
    usage_columns: UsageColumns,
    period: Option<Period>,
) -> Result<Option<Vec<UsageRow>>, ApiError> {
    let cells = scope.store.usage_cells(days, &grouping, usage_columns, MAX_CELLS + 1).await?;
    if cells.len() as u64 > MAX_CELLS {
        return Ok(None);
    }
    let members = load_members(scope, cells.iter().map(|cell| &cell.at)).await?;
    let mut rows: BTreeMap<RowKey, UsageSum> = BTreeMap::new();
    for UsageCell { at, clusters, usage } in cells {
        let row = rows.entry(RowKey::new(&at, &members, period, None)).or_default();
        let cells_per_day = if grouping.step == UsageStep::Hour { 24 } else { 1 };
        row.cells.push((at.time.unwrap_or_default() / cells_per_day, usage));
        row.clusters += clusters;
    }
    let has_counts = matches!(period, Some(Period::Hour | Period::Day));
    Ok(Some(
        rows.into_iter()
            .map(|(key, row)| UsageRow {
                clusters: has_counts.then_some(BigInt(row.clusters)),
                usage: Some(Inline(Usage::from_days(scope, row.into_days()))),
                ..key.empty_row(scope, &members)
            })
            .collect(),
    ))
}

/// Returns the rows by function; `None` if they would be summed from too many cells.
async fn function_rows(
    scope: &AccountScope,
    days: (i64, i64),
    grouping: GroupBy,
    period: Option<Period>,
) -> Result<Option<Vec<UsageRow>>, ApiError> {
    // Functions have no costs here, so days need not be read separately.
    let step = if period.is_none() { UsageStep::Whole } else { grouping.step };
    let cells = scope.store.function_cells(days, &GroupBy { step, ..grouping }, MAX_CELLS + 1).await?;
    if cells.len() as u64 > MAX_CELLS {
        return Ok(None);
    }
    let members = load_members(scope, cells.iter().map(|cell| &cell.at)).await?;
    let mut rows: BTreeMap<RowKey, Option<FunctionUsage>> = BTreeMap::new();
    for FunctionCell { at, usage } in cells {
        let sum = rows.entry(RowKey::new(&at, &members, period, Some(&usage.prefix))).or_default();
        *sum = Some(match sum.take() {
            None => usage,
            Some(sum) => sum.add_usage(&usage),
        });
    }
    Ok(Some(
        rows.into_iter()
            .map(|(key, usage)| UsageRow {
                function: usage.map(|usage| Inline(usage.into())),
                ..key.empty_row(scope, &members)
            })
            .collect(),
    ))
}
