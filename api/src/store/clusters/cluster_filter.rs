//! The filter of a list of clusters, and the totals of the clusters that pass it.

use entity::{
    cluster::{Column, Entity, Status},
    cluster_flag::ClusterFlagKind,
    ids::{ClusterId, UserId},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseBackend, FromQueryResult, PaginatorTrait, QueryFilter, QuerySelect,
    Select,
    sea_query::{Expr, ExprTrait, Func, LikeExpr, Query},
};

use super::{
    cluster_order::{ClusterSort, ClusterSortBy},
    cluster_tag::TagFilter,
    cross_cluster::{TimeRange, remaining_range},
    life_cycle::states_condition,
};
use crate::{
    domain::life_cycle::State,
    store::{
        alerts::cluster_flag::{FlaggedFilter, had_flag_condition, has_flag_condition},
        core::{composite_in::IsOneOf, error::StoreError, page::PageRequest, scoped::AccountStore},
        costs::cluster_cost::CostAtLeast,
    },
};

/// A filter of clusters. A cluster must meet every condition that is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFilter {
    /// Only these clusters.
    pub ids: Option<Vec<ClusterId>>,
    /// Only clusters in one of these states.
    pub states: Option<Vec<State>>,
    /// Only clusters of one of these users.
    pub users: Option<Vec<UserId>>,
    /// The range of the start, in milliseconds.
    pub started_in: TimeRange,
    /// The range of the end, in milliseconds. The end of a cluster that has not ended is `i64::MAX`.
    pub ended_in: TimeRange,
    /// Running clusters that at their last report had been without work for at least this time, in
    /// milliseconds.
    pub min_idle_ms: Option<i64>,
    /// Clusters that are known to have run for at least this time, in milliseconds.
    pub min_duration_ms: Option<i64>,
    /// Clusters with errors, or clusters without.
    pub has_errors: Option<bool>,
    /// Clusters with this name or this Dask identifier.
    pub name_or_scheduler_id: Option<String>,
    /// Clusters whose name or Dask identifier contains this text.
    pub search: Option<String>,
    /// Clusters whose scheduler has this package installed.
    pub package: Option<PackageFilter>,
    /// Clusters with these tags.
    pub tags: Option<TagFilter>,
    /// Clusters whose cost reaches a bound.
    pub cost: Option<CostAtLeast>,
    /// Clusters with an active flag that is not muted.
    pub flagged: Option<FlaggedFilter>,
    /// Clusters that have or had a flag of one of these kinds.
    pub ever_flagged: Option<Vec<ClusterFlagKind>>,
}

/// A package that must be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFilter {
    /// The name of the package; `python` for Python itself.
    pub name: String,
    /// The required version.
    pub version: VersionFilter,
}

/// A condition on the version of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionFilter {
    /// Any version.
    Any,
    /// This version.
    Is(String),
    /// Any version that begins with this text.
    StartsWith(String),
}

/// Totals of some clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClusterTotals {
    /// The number of clusters.
    pub clusters: i64,
    /// The thread time that they offered, in seconds.
    pub thread_seconds: f64,
    /// The thread time that they computed, in seconds.
    pub compute_seconds: f64,
    /// The number of their tasks.
    pub tasks: i64,
    /// The number of times that a task's result came to be in memory.
    pub tasks_succeeded: i64,
    /// The number of tasks that erred themselves.
    pub tasks_erred: i64,
    /// The number of workers that ever joined.
    pub workers: i64,
    /// The size of results, in bytes.
    pub bytes: i64,
    /// The number of recorded errors.
    pub errors: i64,
}

#[derive(FromQueryResult)]
struct TotalsRow {
    clusters: i64,
    thread_seconds: Option<f64>,
    compute_seconds: Option<f64>,
    #[sea_orm(nested)]
    whole: WholeTotals,
}

/// Declares the two halves of the sums of integers, see `costs/usage_hour.rs`.
macro_rules! whole_totals {
    ($($high:ident $low:ident $column:ident),+) => {
        #[derive(FromQueryResult)]
        struct WholeTotals {
            $($high: Option<i64>, $low: Option<i64>,)+
        }

        const WHOLE: &[(Column, &str, &str)] =
            &[$((Column::$column, stringify!($high), stringify!($low)),)+];
    };
}
whole_totals!(
    tasks_high tasks_low TotalTasks,
    succeeded_high succeeded_low TotalTasksSucceeded,
    erred_high erred_low TotalTasksErred,
    workers_high workers_low TotalWorkers,
    bytes_high bytes_low TotalBytes,
    errors_high errors_low TotalErrors
);

/// The divisor that splits integers into two halves, quotient and remainder, which are summed separately.
/// Both databases refuse a sum that overflows their integers, and reports may hold any numbers.
const SUM_DIVISOR: i64 = 1 << 32;

impl ClusterFilter {
    /// Returns the same filter without the time-dependent conditions, which a cluster may begin or cease to
    /// meet by itself.
    pub(crate) fn without_time_dependent_conditions(&self) -> Self {
        Self {
            states: None,
            ended_in: (None, None),
            min_idle_ms: None,
            min_duration_ms: None,
            has_errors: None,
            cost: None,
            flagged: None,
            ..self.clone()
        }
    }

    /// Returns the same filter for a page, without the bounds that the page's position implies.
    pub(crate) fn without_implied_bounds(&self, sort: ClusterSort, request: &PageRequest) -> Self {
        let mut filter = self.clone();
        let range = match sort.by {
            ClusterSortBy::StartedAt => &mut filter.started_in,
            ClusterSortBy::EndedAt => &mut filter.ended_in,
            _ => return filter,
        };
        *range = remaining_range(*range, sort.descending, request);
        filter
    }
}

impl AccountStore {
    /// Returns the totals of all clusters that pass the filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster.totals", skip_all)]
    pub async fn cluster_totals(&self, filter: &ClusterFilter) -> Result<ClusterTotals, StoreError> {
        let mut select = self
            .filtered_clusters(filter)
            .select_only()
            .expr_as(Column::Id.count(), "clusters")
            .expr_as(Column::TotalThreadSeconds.sum(), "thread_seconds")
            .expr_as(Column::TotalComputeSeconds.sum(), "compute_seconds");
        for (column, high, low) in WHOLE {
            let sum = |half: Expr| Expr::from(Func::cast_as(Func::sum(half), "bigint"));
            let column = || Expr::col((Entity, *column));
            select = select
                .expr_as(sum(column().div(SUM_DIVISOR)), *high)
                .expr_as(sum(column().modulo(SUM_DIVISOR)), *low);
        }
        let Some(row) = select.into_model::<TotalsRow>().one(&self.read_executor()).await? else {
            return Ok(ClusterTotals::default());
        };
        let combine_halves = |high: Option<i64>, low: Option<i64>| {
            high.unwrap_or(0).saturating_mul(SUM_DIVISOR).saturating_add(low.unwrap_or(0))
        };
        Ok(ClusterTotals {
            clusters: row.clusters,
            thread_seconds: row.thread_seconds.unwrap_or(0.0),
            compute_seconds: row.compute_seconds.unwrap_or(0.0),
            tasks: combine_halves(row.whole.tasks_high, row.whole.tasks_low),
            tasks_succeeded: combine_halves(row.whole.succeeded_high, row.whole.succeeded_low),
            tasks_erred: combine_halves(row.whole.erred_high, row.whole.erred_low),
            workers: combine_halves(row.whole.workers_high, row.whole.workers_low),
            bytes: combine_halves(row.whole.bytes_high, row.whole.bytes_low),
            errors: combine_halves(row.whole.errors_high, row.whole.errors_low),
        })
    }

    /// Counts the clusters that pass the filter and are known to have existed at some time from `from` to
    /// before `to`. `None` leaves an end open.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster.count_during", skip_all)]
    pub async fn cluster_count_during(
        &self,
        filter: &ClusterFilter,
        (from, to): TimeRange,
    ) -> Result<u64, StoreError> {
        let mut select = self.filtered_clusters(filter);
        if let Some(from) = from {
            let latest_time =
                Expr::col((Entity, Column::StartedAt)).add(Expr::col((Entity, Column::DurationMs)));
            // The first condition follows from the second and is a range of an index: clusters that ended
            // long ago are not read.
            select = select.filter(Column::EndedKey.gte(from)).filter(latest_time.gte(from));
        }
        if let Some(to) = to {
            select = select.filter(Column::StartedAt.lt(to));
        }
        Ok(select.count(&self.read_executor()).await?)
    }

    /// Returns the clusters that pass the filter.
    pub(crate) fn filtered_clusters(&self, filter: &ClusterFilter) -> Select<Entity> {
        let mut select = self.select::<Entity>();
        if let Some(ids) = &filter.ids {
            select = select.filter(Column::Id.is_one_of(ids.iter().copied()));
        }
        if let Some(states) = &filter.states {
            select = select.filter(states_condition(states));
        }
        if let Some(users) = &filter.users {
            select = select.filter(Column::UserId.is_one_of(users.iter().copied()));
        }
        for (column, (from, to)) in
            [(Column::StartedAt, filter.started_in), (Column::EndedKey, filter.ended_in)]
        {
            if let Some(from) = from {
                select = select.filter(column.gte(from));
            }
            if let Some(to) = to {
                select = select.filter(column.lt(to));
            }
        }
        if let Some(min_idle) = filter.min_idle_ms {
            // By the scheduler's clock alone, as of its last report: the activity since then is unknown.
            let since_idle =
                Expr::col((Entity, Column::ReportedAt)).sub(Expr::col((Entity, Column::IdleSince)));
            select = select.filter(Column::Status.eq(Status::Running)).filter(since_idle.gte(min_idle));
        }
        if let Some(min_duration) = filter.min_duration_ms {
            select = select.filter(Column::DurationMs.gte(min_duration));
        }
        if let Some(has_errors) = filter.has_errors {
            let errors = Column::TotalErrors;
            select = select.filter(if has_errors { errors.gt(0) } else { errors.eq(0) });
        }
        if let Some(name) = &filter.name_or_scheduler_id {
            let name = name.as_str();
            select = select.filter(Column::Name.eq(name).or(Column::SchedulerId.eq(name)));
        }
        if let Some(text) = &filter.search {
            select = select.filter(
                self.contains(r#""clusters"."name""#, text)
                    .or(self.contains(r#""clusters"."scheduler_id""#, text)),
            );
        }
        if let Some(package) = &filter.package {
            select = select.filter(Expr::exists(self.installed(package)));
        }
        if let Some(tags) = &filter.tags {
            select = select.filter(tags.condition(self.account_id()));
        }
        if let Some(flags) = &filter.flagged {
            select = select.filter(has_flag_condition(self.account_id(), flags));
        }
        if let Some(kinds) = &filter.ever_flagged {
            select = select.filter(had_flag_condition(self.account_id(), kinds));
        }
        if let Some(cost) = &filter.cost {
            select = select.filter(self.cost_condition(cost));
        }
        select
    }

    /// Returns the condition that a text column contains `text`. Upper and lower case are
    /// equal for ASCII letters only, because SQLite supports no others; PostgreSQL would follow the
    /// language of the database.
    pub(crate) fn contains(&self, column: &str, text: &str) -> Expr {
        const ESCAPE: char = '!';
        let mut pattern = String::from("%");
        for character in text.chars() {
            if ['%', '_', ESCAPE].contains(&character) {
                pattern.push(ESCAPE);
            }
            pattern.push(character.to_ascii_lowercase());
        }
        pattern.push('%');
        Expr::from(Func::lower(self.by_bytes(column))).like(LikeExpr::new(pattern).escape(ESCAPE))
    }

    /// Returns the environment of a cluster's scheduler if the package is installed in it.
    fn installed(&self, package: &PackageFilter) -> sea_orm::sea_query::SelectStatement {
        let (mut select, version) = self.package_version(&package.name);
        select.expr(Expr::val(1));
        select.and_where(match &package.version {
            VersionFilter::Any => version.is_not_null(),
            VersionFilter::Is(exact_version) => version.eq(exact_version.as_str()),
            VersionFilter::StartsWith(prefix) => {
                // `LIKE` is case-sensitive on one database only.
                let length = i32::try_from(prefix.chars().count()).unwrap_or(i32::MAX);
                let start = Func::cust("substr").args([version, Expr::val(1_i32), Expr::val(length)]);
                Expr::from(start).eq(prefix.as_str())
            }
        });
        select
    }

    /// Returns a statement for the environment of a cluster's scheduler, without columns, and the version of
    /// a package in it, which is null or has no row if the package is not installed.
    pub(crate) fn package_version(&self, package: &str) -> (sea_orm::sea_query::SelectStatement, Expr) {
        let environment_column = |column: &'static str| Expr::col(("environments", column));
        let mut select = Query::select()
            .from("environments")
            .and_where(environment_column("account_id").eq(self.account_id().0))
            .and_where(environment_column("cluster_id").equals((Entity, Column::Id)))
            .and_where(environment_column("id").equals((Entity, Column::EnvironmentId)))
            .take();
        let version = if package == "python" {
            environment_column("python")
        } else {
            let packages = Func::cust(self.package_rows_function()).arg(environment_column("packages"));
            select.from_function(packages, "package").and_where(Expr::col(("package", "key")).eq(package));
            Expr::col(("package", "value"))
        };
        (select, version)
    }

    /// Returns the name of the function that expands the packages of an environment into rows of name and
    /// value. JSON paths would be shorter, but give a meaning to some characters of names.
    pub(crate) fn package_rows_function(&self) -> &'static str {
        if self.is_postgres() { "json_each_text" } else { "json_each" }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.read_executor().get_database_backend() == DatabaseBackend::Postgres
    }
}
