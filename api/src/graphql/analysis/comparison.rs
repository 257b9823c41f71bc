//! The comparison of two selections of work: the time that each part of them spent, and the differences
//! in their software.

use std::collections::BTreeSet;

use async_graphql::{Enum, Object, SimpleObject};
use entity::cluster::Model;

use super::{
    analysis_scope::{Selection, WorkScope},
    answer::Answer,
    breakdown::{BreakdownKey, count_value},
};
use crate::{
    blocking_work::run_blocking,
    domain::{
        answer::{self, Question, qualify_works},
        breakdown::{Dimension, Table},
        comparison::{Difference, Status, differences},
        fine_metric::SECONDS,
        fixed_point::Millionths,
    },
    graphql::{
        clusters::environment_difference::{ClusterFacts, EnvironmentDifference},
        computations::{profile_comparison::ProfileComparison, span::validate_count},
        engine::{
            error::{ApiError, NullOnError},
            json::write_enums_by_name,
            projection::{Inline, InlineList, inline_members},
            scalar::BigInt,
            scope::AccountScope,
        },
    },
};

/// The default number of rows.
const DEFAULT_ROWS: i32 = 100;

/// The maximum number of rows.
const MAX_ROWS: i32 = 5_000;

/// A dimension by which the rows of a comparison are grouped. Rows by these dimensions add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum ComparisonDimension {
    /// The path of the span's tags. All spans with the same tags are one group.
    Span,
    /// The function or operation.
    Function,
    /// The activity: `thread-cpu`, `disk-read`, or others.
    Activity,
}

impl From<ComparisonDimension> for Dimension {
    fn from(dimension: ComparisonDimension) -> Self {
        match dimension {
            ComparisonDimension::Span => Self::Span,
            ComparisonDimension::Function => Self::Function,
            ComparisonDimension::Activity => Self::Activity,
        }
    }
}

/// A comparison of two selections of work.
pub(crate) struct Comparison {
    scope: AccountScope,
    base: SelectionTable,
    head: SelectionTable,
    differences: Vec<Difference>,
    first: usize,
}

/// One of the two selections of work, with its values.
struct SelectionTable {
    work: Selection,
    table: Table,
}

impl Comparison {
    pub(crate) async fn find(
        scope: &AccountScope,
        base: WorkScope,
        head: WorkScope,
        by: &[ComparisonDimension],
        unit: String,
        first: Option<i32>,
    ) -> Result<Self, ApiError> {
        let first = validate_count("first", first.unwrap_or(DEFAULT_ROWS), MAX_ROWS)?;
        let by: BTreeSet<Dimension> = by.iter().map(|dimension| (*dimension).into()).collect();
        let (base, head) = (base.find(scope, "base").await?, head.find(scope, "head").await?);
        let base_table = base.load_table(scope, by.clone(), unit.clone()).await?;
        let head_table = head.load_table(scope, by, unit).await?;
        let compare = || (differences(&base_table, &head_table), base_table, head_table);
        let (differences, base_table, head_table) = run_blocking(compare).await;
        let base = SelectionTable { work: base, table: base_table };
        let head = SelectionTable { work: head, table: head_table };
        Ok(Self { scope: scope.clone(), base, head, differences, first })
    }

    fn total_difference(&self) -> Millionths {
        self.head.table.total - self.base.table.total
    }

    fn difference_row(&self, difference: &Difference) -> WorkDifference {
        WorkDifference {
            key: Inline(BreakdownKey::new(&self.scope, difference.key.clone())),
            base: difference.base.map(Millionths::value),
            head: difference.head.map(Millionths::value),
            delta: difference.delta().value(),
            delta_decimal: difference.delta().decimal(),
            share_of_delta: difference.delta().share_of(self.total_difference()),
            kind: difference.status().into(),
        }
    }
}

/// A comparison of two selections of work, `base` and `head`. In seconds, the rows cover the thread time
/// of both: the time of tasks, the idle time of threads, and time without measurements. They add up
/// exactly to the difference of the totals.
#[Object]
impl Comparison {
    /// The unit of the values.
    async fn unit(&self) -> &str {
        &self.head.table.unit
    }

    /// The first work, the baseline of the comparison.
    async fn base(&self) -> ComparedWork {
        ComparedWork::from(&self.base)
    }

    /// The second work, which is compared with the baseline.
    async fn head(&self) -> ComparedWork {
        ComparedWork::from(&self.head)
    }

    /// The total of the second work minus that of the first, in `unit`.
    async fn delta(&self) -> f64 {
        self.total_difference().value()
    }

    /// The same difference as a decimal number with at most six fraction digits and no trailing zeros, such
    /// as `-12.5`. The values of all rows add up to it exactly.
    async fn delta_decimal(&self) -> String {
        self.total_difference().decimal()
    }

    /// The number of rows, including those beyond `first`.
    async fn row_count(&self) -> BigInt {
        count_value(self.differences.len())
    }

    /// The rows, the largest difference in either direction first.
    async fn rows(&self) -> InlineList<WorkDifference> {
        InlineList(
            self.differences
                .iter()
                .take(self.first)
                .map(|difference| self.difference_row(difference))
                .collect(),
        )
    }

    /// The sum of the rows beyond `first`. With it, the rows add up to the difference of the totals.
    async fn remaining(&self) -> RemainingDifferences {
        let remaining = || self.differences.iter().skip(self.first);
        let delta: Millionths = remaining().map(Difference::delta).sum();
        RemainingDifferences {
            rows: count_value(remaining().count()),
            base: remaining().filter_map(|row| row.base).sum::<Millionths>().value(),
            head: remaining().filter_map(|row| row.head).sum::<Millionths>().value(),
            delta: delta.value(),
            delta_decimal: delta.decimal(),
        }
    }

    /// The differences in the software and the size of the clusters.
    async fn environment(&self) -> Result<EnvironmentDifference, ApiError> {
        let (base, head) = (&self.base.work.clusters, &self.head.work.clusters);
        let clusters: Vec<&Model> = base.iter().chain(head).collect();
        Ok(ClusterFacts::load(&self.scope.store, &clusters).await?.difference_between(base, head))
    }

    /// The profiles of both selections in one tree. The profiles of one query merge at most 1,000
    /// windows. Null if there is none, and if a scope names `spanTags`, by which profiles cannot be selected.
    async fn profile(
        &self,
        #[graphql(
            desc = "The minimum share of the samples of both that a node needs to be included, 0 to 1.",
            default = 0.001
        )]
        min_share: f64,
    ) -> NullOnError<ProfileComparison> {
        ProfileComparison::find(&self.scope, &self.base.work, &self.head.work, min_share).await.transpose()
    }

    /// The answer to whether the second work spent more thread time, and where. Null in units other than
    /// seconds.
    async fn verdict(&self) -> Option<Answer> {
        let (base, head) = (&self.base.table, &self.head.table);
        let facts = answer::Slower { base, head, differences: &self.differences, baseline: None };
        let [base_parts, head_parts] =
            [&self.base.work, &self.head.work].map(|work| work.known_parts_at(self.scope.now));
        (head.unit == SECONDS).then(|| {
            let works = [&base_parts[..], &head_parts[..]];
            let answer = qualify_works(Question::Slower, answer::answer_slower(&facts), works);
            Answer::new(&self.scope, answer)
        })
    }
}

/// One of two compared selections of work.
#[derive(SimpleObject)]
struct ComparedWork {
    /// The number of clusters.
    clusters: BigInt,
    /// The sum of the rows, in the unit of the comparison. For the unit `seconds`, the threads integrated
    /// over the time in which the work was present, for the clusters that report it.
    total: f64,
    /// The part of the total in which threads had no task, in thread-seconds. Null if no cluster reports
    /// its threads, if functions are selected, and in other units.
    idle_seconds: Option<f64>,
    /// The thread time that the clusters offered over their whole lives, including time without work, in
    /// thread-seconds.
    thread_seconds: f64,
    /// The number of clusters with the work but without measurements. 0 for other units than seconds.
    clusters_without_metrics: BigInt,
    /// The number of clusters with the work whose threads during that time are unknown. 0 for other units
    /// than seconds.
    clusters_without_threads: BigInt,
}

impl From<&SelectionTable> for ComparedWork {
    fn from(SelectionTable { work, table }: &SelectionTable) -> Self {
        Self {
            clusters: count_value(work.clusters.len()),
            total: table.total.value(),
            idle_seconds: table.idle.map(Millionths::value),
            thread_seconds: work.clusters.iter().map(|row| row.total_thread_seconds).sum(),
            clusters_without_metrics: count_value(table.without_metrics),
            clusters_without_threads: count_value(table.without_threads),
        }
    }
}

/// The difference between two selections of work in one group of values.
#[derive(SimpleObject)]
struct WorkDifference {
    /// The group of the row.
    key: Inline<BreakdownKey>,
    /// The value of the first work, in the unit of the comparison. Null if it has none.
    base: Option<f64>,
    /// The value of the second work, in the unit of the comparison. Null if it has none.
    head: Option<f64>,
    /// The value of the second work minus that of the first, in the unit of the comparison.
    delta: f64,
    /// The same difference as a decimal number with at most six fraction digits and no trailing zeros, such
    /// as `-12.5`.
    delta_decimal: String,
    /// The share of the difference of the totals. Increases and decreases cancel out, so it can be above
    /// 1 or below 0. Null if the totals are equal.
    share_of_delta: Option<f64>,
    /// The kind of difference.
    kind: DifferenceKind,
}

inline_members! {
    WorkDifference: base, head, delta, delta_decimal, share_of_delta, kind; key: Inline<BreakdownKey>
}

/// A kind of difference between two selections of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Status")]
enum DifferenceKind {
    /// Only the second work has a value.
    Added,
    /// Only the first work has a value.
    Removed,
    /// Both have a value, and the values differ.
    Changed,
    /// Both have the same value.
    Unchanged,
}

write_enums_by_name!(DifferenceKind);

/// The rows of a comparison beyond `first`.
#[derive(SimpleObject)]
struct RemainingDifferences {
    /// The number of rows.
    rows: BigInt,
    /// The sum of the values of the first work, in the unit of the comparison.
    base: f64,
    /// The sum of the values of the second work, in the unit of the comparison.
    head: f64,
    /// The sum of the second work minus that of the first, in the unit of the comparison.
    delta: f64,
    /// The same difference as a decimal number with at most six fraction digits and no trailing zeros, such
    /// as `-12.5`.
    delta_decimal: String,
}
