//! Which clusters a list has, and what all of them come to.

use entity::{
    cluster::{Column, Entity, Status},
    cluster_flag::Kind,
    ids::{ClusterId, UserId},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseBackend, FromQueryResult, PaginatorTrait, QueryFilter, QuerySelect,
    Select,
    sea_query::{Expr, ExprTrait, Func, LikeExpr, Query},
};

use super::{
    account_list::{TimeRange, unsaid},
    cluster::{ClusterSort, ClusterSortBy},
    cluster_cost::CostAtLeast,
    cluster_flag::{Flagged, ever_flagged, flagged},
    cluster_tag::TagFilter,
    error::StoreError,
    life_cycle::in_states,
    page::PageRequest,
    scoped::AccountStore,
};
use crate::domain::life_cycle::State;

/// Which clusters are wanted: those that pass every condition that is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterFilter {
    /// One of these.
    pub ids: Option<Vec<ClusterId>>,
    /// In one of these states.
    pub states: Option<Vec<State>>,
    /// Of one of these users.
    pub users: Option<Vec<UserId>>,
    /// Started from the first time to before the second, in milliseconds.
    pub started_in: TimeRange,
    /// The same of when they ended; those that have not have the largest of all numbers.
    pub ended_in: TimeRange,
    /// Running, and without work for at least so many milliseconds when they last reported.
    pub idle_for_ms: Option<i64>,
    /// Known to have run for at least so many milliseconds.
    pub lasting_ms: Option<i64>,
    /// With errors, or without.
    pub has_errors: Option<bool>,
    /// Called this, or by this identifier of Dask.
    pub named: Option<String>,
    /// With this text in the name or in Dask's identifier.
    pub search: Option<String>,
    /// Whose scheduler runs on this package.
    pub package: Option<PackageFilter>,
    /// With these tags.
    pub tags: Option<TagFilter>,
    /// That cost so much.
    pub cost: Option<CostAtLeast>,
    /// With a flag that lasts and is not muted.
    pub flagged: Option<Flagged>,
    /// That have or had a flag of one of these kinds.
    pub ever_flagged: Option<Vec<Kind>>,
}

/// A package that has to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFilter {
    /// Its name; `python` for Python itself.
    pub name: String,
    /// In which version.
    pub version: VersionFilter,
}

/// Which versions of a package are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionFilter {
    /// All.
    Any,
    /// This one.
    Is(String),
    /// All that begin with this.
    StartsWith(String),
}

/// What some clusters come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClusterTotals {
    /// How many they are.
    pub clusters: i64,
    /// Thread-seconds they offered.
    pub thread_seconds: f64,
    /// Thread-seconds they computed.
    pub compute_seconds: f64,
    /// Tasks they were given.
    pub tasks: i64,
    /// Times a task came to be in memory.
    pub tasks_succeeded: i64,
    /// Tasks that erred themselves.
    pub tasks_erred: i64,
    /// Workers that ever joined.
    pub workers: i64,
    /// Bytes of results.
    pub bytes: i64,
    /// Errors recorded.
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

/// Declares the halves of sums of whole numbers, see [`HALF`].
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

/// Whole numbers are summed in two halves, of multiples of this and of what remains. Both databases refuse a sum that
/// is too large for their integers, and reports may hold any numbers.
const HALF: i64 = 1 << 32;

impl ClusterFilter {
    /// The same filter without what a cluster may begin or cease to pass by itself.
    pub(super) fn lasting(&self) -> Self {
        Self {
            states: None,
            ended_in: (None, None),
            idle_for_ms: None,
            lasting_ms: None,
            has_errors: None,
            cost: None,
            flagged: None,
            ..self.clone()
        }
    }

    /// The same filter for a page behind or in front of a position, without what the position says already.
    pub(super) fn behind(&self, sort: ClusterSort, request: &PageRequest) -> Self {
        let mut filter = self.clone();
        let range = match sort.by {
            ClusterSortBy::StartedAt => &mut filter.started_in,
            ClusterSortBy::EndedAt => &mut filter.ended_in,
            _ => return filter,
        };
        *range = unsaid(*range, sort.descending, request);
        filter
    }
}

impl AccountStore {
    /// What all clusters come to that pass the filter.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster.totals", skip_all)]
    pub async fn cluster_totals(&self, filter: &ClusterFilter) -> Result<ClusterTotals, StoreError> {
        let mut select = self
            .filtered_clusters(filter)
            .select_only()
            .expr_as(Column::Id.count(), "clusters")
            .expr_as(Column::TotalThreadSeconds.sum(), "thread_seconds")
            .expr_as(Column::TotalComputeSeconds.sum(), "compute_seconds");
        for (column, high, low) in WHOLE {
            let sum = |part: Expr| Expr::from(Func::cast_as(Func::sum(part), "bigint"));
            let column = || Expr::col((Entity, *column));
            select = select.expr_as(sum(column().div(HALF)), *high).expr_as(sum(column().modulo(HALF)), *low);
        }
        let Some(row) = select.into_model::<TotalsRow>().one(&self.reads()).await? else {
            return Ok(ClusterTotals::default());
        };
        let whole = |high: Option<i64>, low: Option<i64>| {
            high.unwrap_or(0).saturating_mul(HALF).saturating_add(low.unwrap_or(0))
        };
        Ok(ClusterTotals {
            clusters: row.clusters,
            thread_seconds: row.thread_seconds.unwrap_or(0.0),
            compute_seconds: row.compute_seconds.unwrap_or(0.0),
            tasks: whole(row.whole.tasks_high, row.whole.tasks_low),
            tasks_succeeded: whole(row.whole.succeeded_high, row.whole.succeeded_low),
            tasks_erred: whole(row.whole.erred_high, row.whole.erred_low),
            workers: whole(row.whole.workers_high, row.whole.workers_low),
            bytes: whole(row.whole.bytes_high, row.whole.bytes_low),
            errors: whole(row.whole.errors_high, row.whole.errors_low),
        })
    }

    /// How many clusters are known to have been there at a time from `from` to before `to`, either of which may be open.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster.count_during", skip_all)]
    pub async fn cluster_count_during(&self, (from, to): TimeRange) -> Result<u64, StoreError> {
        let mut select = self.select::<Entity>();
        if let Some(from) = from {
            let until = Expr::col(Column::StartedAt).add(Expr::col(Column::DurationMs));
            // The first is true whenever the second is, and a range of an index: what ended long ago is not read.
            select = select.filter(Column::EndedKey.gte(from)).filter(until.gte(from));
        }
        if let Some(to) = to {
            select = select.filter(Column::StartedAt.lt(to));
        }
        Ok(select.count(&self.reads()).await?)
    }

    /// The clusters that pass the filter.
    pub(super) fn filtered_clusters(&self, filter: &ClusterFilter) -> Select<Entity> {
        let mut select = self.select::<Entity>();
        if let Some(ids) = &filter.ids {
            select = select.filter(Column::Id.is_in(ids.iter().copied()));
        }
        if let Some(states) = &filter.states {
            select = select.filter(in_states(states));
        }
        if let Some(users) = &filter.users {
            select = select.filter(Column::UserId.is_in(users.iter().copied()));
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
        if let Some(idle) = filter.idle_for_ms {
            // By the scheduler's clock alone, as of what it last said: what it does since then, nobody knows.
            let since_idle =
                Expr::col((Entity, Column::ReportedAt)).sub(Expr::col((Entity, Column::IdleSince)));
            select = select.filter(Column::Status.eq(Status::Running)).filter(since_idle.gte(idle));
        }
        if let Some(lasting) = filter.lasting_ms {
            select = select.filter(Column::DurationMs.gte(lasting));
        }
        if let Some(has_errors) = filter.has_errors {
            let errors = Column::TotalErrors;
            select = select.filter(if has_errors { errors.gt(0) } else { errors.eq(0) });
        }
        if let Some(name) = &filter.named {
            let name = name.as_str();
            select = select.filter(Column::Name.eq(name).or(Column::SchedulerId.eq(name)));
        }
        if let Some(text) = &filter.search {
            select = select.filter(self.contains("name", text).or(self.contains("scheduler_id", text)));
        }
        if let Some(package) = &filter.package {
            select = select.filter(Expr::exists(self.installed(package)));
        }
        if let Some(tags) = &filter.tags {
            select = select.filter(tags.condition());
        }
        if let Some(wanted) = &filter.flagged {
            select = select.filter(flagged(wanted));
        }
        if let Some(kinds) = &filter.ever_flagged {
            select = select.filter(ever_flagged(kinds));
        }
        if let Some(cost) = &filter.cost {
            select = select.filter(self.costs_at_least(cost));
        }
        select
    }

    /// Whether a text of a cluster contains `text`. Letters of ASCII are the same in upper and lower case, which is all
    /// that SQLite knows of; PostgreSQL would go by the language of the database.
    fn contains(&self, column: &str, text: &str) -> Expr {
        const ESCAPE: char = '!';
        let mut pattern = String::from("%");
        for character in text.chars() {
            if ['%', '_', ESCAPE].contains(&character) {
                pattern.push(ESCAPE);
            }
            pattern.push(character.to_ascii_lowercase());
        }
        pattern.push('%');
        let collation = if self.is_postgres() { r#" COLLATE "C""# } else { "" };
        let lower = Func::lower(Expr::cust(format!(r#""clusters"."{column}"{collation}"#)));
        Expr::from(lower).like(LikeExpr::new(pattern).escape(ESCAPE))
    }

    /// The environment of a cluster's scheduler, if the package is installed in it.
    fn installed(&self, package: &PackageFilter) -> sea_orm::sea_query::SelectStatement {
        let of_environment = |column: &'static str| Expr::col(("environments", column));
        let mut select = Query::select()
            .expr(Expr::val(1))
            .from("environments")
            .and_where(of_environment("account_id").equals((Entity, Column::AccountId)))
            .and_where(of_environment("cluster_id").equals((Entity, Column::Id)))
            .and_where(of_environment("id").equals((Entity, Column::EnvironmentId)))
            .take();
        let version = if package.name == "python" {
            of_environment("python")
        } else {
            let packages = Func::cust(self.each_package()).arg(of_environment("packages"));
            select
                .from_function(packages, "package")
                .and_where(Expr::col(("package", "key")).eq(package.name.as_str()));
            Expr::col(("package", "value"))
        };
        select.and_where(match &package.version {
            VersionFilter::Any => version.is_not_null(),
            VersionFilter::Is(wanted) => version.eq(wanted.as_str()),
            VersionFilter::StartsWith(begin) => {
                // Not LIKE, which tells upper from lower case on one database only.
                let length = i32::try_from(begin.chars().count()).unwrap_or(i32::MAX);
                let start = Func::cust("substr").args([version, Expr::val(1_i32), Expr::val(length)]);
                Expr::from(start).eq(begin.as_str())
            }
        });
        select
    }

    /// What gives a row of a name and a value for each package of an environment. Paths, which would be shorter, have
    /// characters of their own.
    pub(super) fn each_package(&self) -> &'static str {
        if self.is_postgres() { "json_each_text" } else { "json_each" }
    }

    pub(super) fn is_postgres(&self) -> bool {
        self.reads().get_database_backend() == DatabaseBackend::Postgres
    }
}
