//! Two pieces of work beside each other: what each part of them spent, and what else differs.

use std::collections::BTreeSet;

use async_graphql::{Enum, Object, SimpleObject};
use entity::cluster::Model;

use super::{
    answer::Answer,
    breakdown::{WorkPart, count},
    environment_difference::{ClusterFacts, EnvironmentDifference},
    error::{Alone, ApiError},
    in_place::{Items, Placed, in_place_members},
    json::names,
    profile_comparison::ProfileComparison,
    scalar::BigInt,
    scope::AccountScope,
    span::range,
    work_scope::{Selection, WorkScope},
};
use crate::{
    blocking::blocking,
    domain::{
        answer,
        breakdown::{Dimension, Table},
        comparison::{Difference, Status, differences},
        fine_metric::SECONDS,
        millionths::Millionths,
    },
};

/// Rows of one answer, unless the query says.
const DEFAULT_ROWS: i32 = 100;

/// Rows of one answer at the most.
const MAX_ROWS: i32 = 5_000;

/// What the rows of a comparison are told apart by: what adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum ComparisonDimension {
    /// The path of tags of the span, the same for all spans that are named alike.
    Span,
    /// The function or operation.
    Function,
    /// What was done: `thread-cpu`, `disk-read`, or others.
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

/// Two pieces of work, compared.
pub(super) struct Comparison {
    scope: AccountScope,
    base: Compared,
    head: Compared,
    differences: Vec<Difference>,
    first: usize,
}

/// One of the two.
struct Compared {
    work: Selection,
    table: Table,
}

impl Comparison {
    pub(super) async fn find(
        scope: &AccountScope,
        base: WorkScope,
        head: WorkScope,
        by: &[ComparisonDimension],
        unit: String,
        first: Option<i32>,
    ) -> Result<Self, ApiError> {
        let first = range("first", first.unwrap_or(DEFAULT_ROWS), MAX_ROWS)?;
        let by: BTreeSet<Dimension> = by.iter().map(|dimension| (*dimension).into()).collect();
        let (base, head) = (base.find(scope, "base").await?, head.find(scope, "head").await?);
        let of_base = base.table(scope, by.clone(), unit.clone()).await?;
        let of_head = head.table(scope, by, unit).await?;
        let compare = || (differences(&of_base, &of_head), of_base, of_head);
        let (differences, of_base, of_head) = blocking(compare).await;
        let base = Compared { work: base, table: of_base };
        let head = Compared { work: head, table: of_head };
        Ok(Self { scope: scope.clone(), base, head, differences, first })
    }

    fn difference(&self) -> Millionths {
        self.head.table.total - self.base.table.total
    }

    fn row(&self, difference: &Difference) -> WorkDifference {
        WorkDifference {
            key: Placed(WorkPart::new(&self.scope, difference.key.clone())),
            base: difference.base.map(Millionths::value),
            head: difference.head.map(Millionths::value),
            delta: difference.delta().value(),
            delta_exact: difference.delta().decimal(),
            share_of_delta: difference.delta().share_of(self.difference()),
            status: difference.status().into(),
        }
    }
}

/// Two pieces of work, compared: the first, `base`, is what the second, `head`, is measured by. In seconds, the rows have
/// the threads' time of both: what tasks spent, what threads were idle, and that of which nothing was measured. They add
/// up to the difference of the totals exactly.
#[Object]
impl Comparison {
    /// What the values count.
    async fn unit(&self) -> &str {
        &self.head.table.unit
    }

    /// The first work.
    async fn base(&self) -> ComparedWork {
        ComparedWork::from(&self.base)
    }

    /// The second work.
    async fn head(&self) -> ComparedWork {
        ComparedWork::from(&self.head)
    }

    /// How much more the second work has in all, in `unit`; below 0 when it has less.
    async fn delta(&self) -> f64 {
        self.difference().value()
    }

    /// The same as a decimal number of whole millionths: those of all rows add up to it exactly.
    async fn delta_exact(&self) -> String {
        self.difference().decimal()
    }

    /// How many rows there are.
    async fn row_count(&self) -> BigInt {
        count(self.differences.len())
    }

    /// What differs most, by its size and whatever its direction, first.
    async fn rows(&self) -> Items<WorkDifference> {
        Items(self.differences.iter().take(self.first).map(|difference| self.row(difference)).collect())
    }

    /// What the rows beyond `first` come to, so that with it the rows add up.
    async fn rest(&self) -> RestOfWork {
        let rest = || self.differences.iter().skip(self.first);
        let delta: Millionths = rest().map(Difference::delta).sum();
        RestOfWork {
            rows: count(rest().count()),
            base: rest().filter_map(|row| row.base).sum::<Millionths>().value(),
            head: rest().filter_map(|row| row.head).sum::<Millionths>().value(),
            delta: delta.value(),
            delta_exact: delta.decimal(),
        }
    }

    /// How the software and the size of the clusters differ.
    async fn environment(&self) -> Result<EnvironmentDifference, ApiError> {
        let (base, head) = (&self.base.work.clusters, &self.head.work.clusters);
        let clusters: Vec<&Model> = base.iter().chain(head).collect();
        Ok(ClusterFacts::read(&self.scope.store, &clusters).await?.between(base, head))
    }

    /// The profiles of both in one tree. Null when there is none, and when a scope names `spanTags` or `functions`, by
    /// which profiles are not told. The profiles of one query merge 1,000 windows at the most.
    async fn profile(
        &self,
        #[graphql(
            desc = "Leave out what was part of a smaller share of the samples of both than this, 0 to 1.",
            default = 0.001
        )]
        min_share: f64,
    ) -> Alone<ProfileComparison> {
        ProfileComparison::find(&self.scope, &self.base.work, &self.head.work, min_share).await.transpose()
    }

    /// What to make of it: whether the second work spent more thread time, and where. Null in other units than seconds.
    async fn verdict(&self) -> Option<Answer> {
        let (base, head) = (&self.base.table, &self.head.table);
        let facts = answer::Slower { base, head, differences: &self.differences, against: None };
        (head.unit == SECONDS).then(|| Answer::new(&self.scope, answer::slower(&facts)))
    }
}

/// A piece of work that is compared.
#[derive(SimpleObject)]
struct ComparedWork {
    /// How many clusters it has.
    clusters: BigInt,
    /// What its rows come to, in the comparison's unit: in seconds, the threads integrated over the time the work was
    /// there, as far as clusters tell of it.
    total: f64,
    /// Of that, thread-seconds without a task; null where no cluster tells, for some functions, and in other units.
    idle_seconds: Option<f64>,
    /// Thread-seconds its clusters offered over their whole lives, also while there was no work.
    cluster_seconds: f64,
    /// Clusters with the work of which nothing was measured; told in seconds alone.
    clusters_without_metrics: BigInt,
    /// Clusters with the work of whose threads nothing is known for its time; told in seconds alone.
    clusters_without_threads: BigInt,
}

impl From<&Compared> for ComparedWork {
    fn from(Compared { work, table }: &Compared) -> Self {
        Self {
            clusters: count(work.clusters.len()),
            total: table.total.value(),
            idle_seconds: table.idle.map(Millionths::value),
            cluster_seconds: work.clusters.iter().map(|row| row.total_thread_seconds).sum(),
            clusters_without_metrics: count(table.without_metrics),
            clusters_without_threads: count(table.without_threads),
        }
    }
}

/// A part of two pieces of work.
#[derive(SimpleObject)]
struct WorkDifference {
    /// What it is.
    key: Placed<WorkPart>,
    /// How much of it the first work has, in the comparison's unit; null when it has none.
    base: Option<f64>,
    /// How much of it the second work has, in the comparison's unit; null when it has none.
    head: Option<f64>,
    /// How much more the second work has, in the comparison's unit.
    delta: f64,
    /// The same as a decimal number of whole millionths.
    delta_exact: String,
    /// Its share of the difference of the totals. Parts that grew and parts that shrank cancel each other out, so it may
    /// be above 1 or below 0. Null when the totals are equal.
    share_of_delta: Option<f64>,
    /// How it differs.
    status: DifferenceStatus,
}

in_place_members! {
    WorkDifference: base, head, delta, delta_exact, share_of_delta, status; key: Placed<WorkPart>
}

/// How a part of two pieces of work differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Status")]
enum DifferenceStatus {
    /// Only the second work has it.
    Added,
    /// Only the first work has it.
    Removed,
    /// Both have it, and not the same of it.
    Changed,
    /// Both have the same of it.
    Unchanged,
}

names!(DifferenceStatus);

/// Rows of a comparison that are left out.
#[derive(SimpleObject)]
struct RestOfWork {
    /// How many they are.
    rows: BigInt,
    /// What the first work has of them, in the comparison's unit.
    base: f64,
    /// What the second work has of them, in the comparison's unit.
    head: f64,
    /// How much more the second work has of them, in the comparison's unit.
    delta: f64,
    /// The same as a decimal number of whole millionths.
    delta_exact: String,
}
