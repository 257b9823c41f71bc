//! A backtest of an idle timeout over the stored history: finds the times in which clusters were idle
//! for longer than the timeout.
//!
//! Dask begins another computation once everything submitted before is done. A cluster is therefore busy
//! while it has a running computation, and idle in between, before the first one and after the last one.
//! All statements use the same definition of an idle stretch.

use std::collections::BTreeMap;

use entity::{
    cluster::{self, Column},
    computation,
    ids::{ClusterId, ComputationId},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait, Select,
    sea_query::{Expr, ExprTrait, Func, Query, SelectStatement, UnionType},
};

use crate::{
    domain::usage::{SATURATED, Usage},
    store::{
        clusters::cluster_filter::ClusterFilter,
        computations::computation::ComputationSort,
        core::{
            error::StoreError,
            page::{self, End, Key, Page, PageRequest, Sort},
            scoped::AccountStore,
        },
        costs::usage_hour::DAY,
    },
};

/// The largest number of clusters examined, the newest first.
const MAX_CLUSTERS: u64 = 1_000;

/// The largest number of idle stretches returned.
const MAX_STRETCHES: u64 = 10_000;

const TOO_MANY: &str = "more than 10000 stops: request a longer timeout, or a shorter period";

/// The parameters of a backtest.
#[derive(Clone, Debug)]
pub struct BacktestParameters {
    /// The clusters to examine.
    pub filter: ClusterFilter,
    /// The idle timeout, in milliseconds.
    pub timeout_ms: i64,
}

/// A time in which a cluster was idle for longer than the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromQueryResult)]
pub struct IdleStretch {
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The start of the stretch, in milliseconds since the epoch.
    pub idle_from: i64,
    /// The end of the stretch, in milliseconds since the epoch: the cluster's next computation, its
    /// close, or its last report.
    pub idle_until: i64,
    /// The computation that ended the stretch. `None` if the cluster closed or its reports end.
    pub computation_id: Option<ComputationId>,
}

/// The clusters that a backtest covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacktestScope {
    /// The number of examined clusters that match the filter, at most 1,000.
    pub clusters: u64,
    /// The number of examined clusters that had tasks but have no stored computation.
    pub without_history: u64,
    /// True if the examined clusters are all that match the filter.
    pub is_complete: bool,
}

#[derive(FromQueryResult)]
struct ScopeRow {
    clusters: i64,
    without_history: Option<i64>,
}

#[derive(FromQueryResult)]
struct SavedRow {
    day: i64,
    thread_us: i64,
    worker_us: i64,
    memory_gib_us: i64,
}

impl AccountStore {
    /// Returns the number of clusters that the backtest covers.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.idle_backtest.scope", skip_all)]
    pub async fn backtest_scope(&self, question: &BacktestParameters) -> Result<BacktestScope, StoreError> {
        let newest = self.newest_clusters(&question.filter).limit(MAX_CLUSTERS + 1);
        let unknown_flag = Expr::case(self.has_history(), Expr::cust("0")).finally(Expr::cust("1"));
        let newest = newest.select_only().expr_as(unknown_flag, "unknown").into_query();
        let statement = Query::select()
            .expr_as(Func::count(Expr::cust("*")), "clusters")
            .expr_as(Func::cast_as(Func::sum(Expr::col("unknown")), "bigint"), "without_history")
            .from_subquery(newest, "newest")
            .take();
        let Some(row) = self.read_executor().query_one(&statement).await? else {
            return Ok(BacktestScope::default());
        };
        let row = ScopeRow::from_query_result(&row, "")?;
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(BacktestScope {
            clusters: Ord::min(count(row.clusters), MAX_CLUSTERS),
            without_history: count(row.without_history.unwrap_or(0)),
            is_complete: count(row.clusters) <= MAX_CLUSTERS,
        })
    }

    /// Returns the stretches in which clusters were idle for longer than the timeout, in no particular
    /// order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, or [`StoreError::TooLarge`] if there are more
    /// than 10,000 stretches.
    #[tracing::instrument(name = "store.idle_backtest.stretches", skip_all)]
    pub async fn idle_stretches(
        &self,
        question: &BacktestParameters,
    ) -> Result<Vec<IdleStretch>, StoreError> {
        let mut statement = self.select_stretches(question);
        statement.limit(MAX_STRETCHES + 1);
        let rows = self.read_executor().query_all(&statement).await?;
        if rows.len() as u64 > MAX_STRETCHES {
            return Err(StoreError::TooLarge(TOO_MANY));
        }
        Ok(rows.iter().map(|row| IdleStretch::from_query_result(row, "")).collect::<Result<_, _>>()?)
    }

    /// Returns the usage of these clusters between the time at which the timeout would have stopped them
    /// and the end of the stretch, by day. The usage of an hour is spread evenly over the part of it in
    /// which the cluster existed.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.idle_backtest.saved", skip_all)]
    pub async fn idle_usage(
        &self,
        question: &BacktestParameters,
    ) -> Result<BTreeMap<i64, Usage>, StoreError> {
        const HOUR: &str = "usage_hours.hour * 3600000";
        const NEXT: &str = "(usage_hours.hour + 1) * 3600000";
        let min_with_hour_end =
            |column: &str| format!("CASE WHEN {column} < {NEXT} THEN {column} ELSE {NEXT} END");
        let max_with_hour_start =
            |column: &str| format!("CASE WHEN {column} > {HOUR} THEN {column} ELSE {HOUR} END");
        let duration = |from: &str, until: &str| {
            format!("CAST({} - {} AS double precision)", min_with_hour_end(until), max_with_hour_start(from))
        };
        let share = format!("{} / {}", duration("saved_from", "idle_until"), duration("born", "died"));
        let sum = |column: &str| {
            let used = format!("SUM(CAST(usage_hours.{column} AS double precision) * ({share}))");
            // The limit is a little below the largest 64-bit integer, which no double represents
            // exactly.
            Expr::cust(format!(
                "CASE WHEN {used} >= 9.2e18 THEN {SATURATED} ELSE CAST(ROUND({used}) AS bigint) END"
            ))
        };
        let hour = || Expr::col(("usage_hours", "hour"));
        let saved = self.select_stretches(question);
        let used = Expr::col(("usage_hours", "account_id"))
            .eq(self.account_id())
            .and(Expr::col(("usage_hours", "cluster_id")).equals(("saved", "cluster_id")))
            .and(hour().gte(Expr::cust("saved_from / 3600000")))
            .and(hour().lte(Expr::cust("(idle_until - 1) / 3600000")))
            // The usage after a cluster's last report is unknown.
            .and(Expr::cust(format!("{} > {}", min_with_hour_end("died"), max_with_hour_start("born"))));
        let mut statement = Query::select();
        statement.expr_as(Expr::cust(format!("usage_hours.{DAY}")), "day");
        for column in ["thread_us", "worker_us", "memory_gib_us"] {
            statement.expr_as(sum(column), column);
        }
        statement
            .from_subquery(saved, "saved")
            .inner_join("usage_hours", used)
            .add_group_by([Expr::cust(format!("usage_hours.{DAY}"))]);
        let rows = self.read_executor().query_all(&statement).await?;
        let rows: Vec<SavedRow> =
            rows.iter().map(|row| SavedRow::from_query_result(row, "")).collect::<Result<_, _>>()?;
        let usage = |row: SavedRow| {
            let SavedRow { day, thread_us, worker_us, memory_gib_us } = row;
            // The cluster was idle for the whole time.
            let idle_us = Some(thread_us);
            (day, Usage { thread_us, worker_us, memory_gib_us, idle_us, ..Usage::default() })
        };
        Ok(rows.into_iter().map(usage).collect())
    }

    /// Returns a page of the computations that begin at the end of a stretch, in the order of `sort`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.idle_backtest.affected", skip_all)]
    pub async fn affected_computations(
        &self,
        stretches: &[IdleStretch],
        sort: ComputationSort,
        request: &PageRequest,
    ) -> Result<Page<computation::Model>, StoreError> {
        let positions = stretches.iter().filter_map(|stretch| {
            let id = stretch.computation_id?;
            let time = page::KeyPart::Integer(stretch.idle_until);
            Some((Key::time_in_account(time, stretch.cluster_id, id), (stretch.cluster_id, id)))
        });
        let is_in_page = |key: &Key| {
            request.after.as_ref().is_none_or(|after| key < after)
                && request.before.as_ref().is_none_or(|before| key > before)
        };
        let mut positions: Vec<_> = positions.filter(|(key, _)| is_in_page(key)).collect();
        positions.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        if request.end == End::Last {
            positions.reverse();
        }
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let has_more = positions.len() > limit;
        positions.truncate(limit);
        let ids: Vec<_> = positions.iter().map(|(_, id)| *id).collect();
        let mut rows_by_id: BTreeMap<_, _> = if ids.is_empty() {
            BTreeMap::new()
        } else {
            let rows = self.computations_by_id(&ids).await?;
            rows.into_iter().map(|row| ((row.cluster_id, row.id), row)).collect()
        };
        let rows = positions.into_iter().filter_map(|(_, id)| rows_by_id.remove(&id));
        Ok(page::build_page(rows.map(|row| (sort.key(&row), row)).collect(), request, has_more))
    }

    /// The statement that selects the idle stretches, each with the time from which it would have been
    /// saved and with the start and the end of its cluster.
    fn select_stretches(&self, question: &BacktestParameters) -> SelectStatement {
        let cluster_end = || Expr::from(Func::coalesce([Expr::col("closed_at"), Expr::col("reported_at")]));
        let chosen_clusters = || {
            self.newest_clusters(&question.filter)
                .filter(self.has_history())
                .limit(MAX_CLUSTERS)
                .select_only()
                .columns([Column::Id, Column::StartedAt, Column::ClosedAt, Column::ReportedAt])
                .into_query()
        };
        let cluster_column = |column: &'static str| Expr::col(("chosen", column));
        let run_column = |column: &'static str| Expr::col(("run", column));
        // The end of a cluster counts as the start of a computation, so that the last stretch has an end.
        let ends = Query::select()
            .expr_as(cluster_column("id"), "cluster_id")
            .expr_as(Expr::cust("NULL"), "computation_id")
            .expr_as(cluster_end(), "began")
            .expr_as(cluster_end(), "ended")
            .expr_as(cluster_column("started_at"), "born")
            .expr_as(cluster_end(), "died")
            .from_subquery(chosen_clusters(), "chosen")
            .take();
        let run_end = || Expr::from(Func::coalesce([run_column("stopped_at"), cluster_end()]));
        // A clock that was set back must not end a computation before its start.
        let is_clock_set_back = run_end().lt(run_column("started_at"));
        let busy_until = Expr::case(is_clock_set_back, run_column("started_at")).finally(run_end());
        let busy = Query::select()
            .expr_as(cluster_column("id"), "cluster_id")
            .expr_as(run_column("id"), "computation_id")
            .expr_as(run_column("started_at"), "began")
            .expr_as(busy_until, "ended")
            .expr_as(cluster_column("started_at"), "born")
            .expr_as(cluster_end(), "died")
            .from_subquery(chosen_clusters(), "chosen")
            .join_as(
                sea_orm::sea_query::JoinType::InnerJoin,
                "computations",
                "run",
                run_column("account_id")
                    .eq(self.account_id())
                    .and(run_column("cluster_id").equals(("chosen", "id"))),
            )
            .union(UnionType::All, ends)
            .take();
        // This is literal SQL, since the builder binds the number in front of PRECEDING and leaves no
        // space between.
        let busy_until = Expr::cust(
            "MAX(ended) OVER (PARTITION BY cluster_id ORDER BY began, ended \
             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
        );
        let idle = Query::select()
            .columns(["cluster_id", "computation_id", "born", "died"])
            .expr_as(Expr::col("began"), "idle_until")
            .expr_as(busy_until, "busy_until")
            .from_subquery(busy, "busy")
            .take();
        let idle_from = || Expr::from(Func::coalesce([Expr::col("busy_until"), Expr::col("born")]));
        Query::select()
            .columns(["cluster_id", "computation_id", "idle_until", "born", "died"])
            .expr_as(idle_from(), "idle_from")
            .expr_as(idle_from().add(question.timeout_ms), "saved_from")
            .from_subquery(idle, "idle")
            .and_where(Expr::col("idle_until").sub(idle_from()).gt(question.timeout_ms))
            .take()
    }

    fn newest_clusters(&self, filter: &ClusterFilter) -> Select<cluster::Entity> {
        let select = self.filtered_clusters(filter);
        select.order_by_desc(Column::StartedAt).order_by_desc(Column::Id)
    }

    /// True if a cluster's busy times are known: it had no tasks, or some of its computations are
    /// stored.
    fn has_history(&self) -> Condition {
        use computation::Column as Of;
        let computations = self
            .select::<computation::Entity>()
            .select_only()
            .column(Of::Id)
            .filter(Expr::col(Of::ClusterId.as_column_ref()).equals((cluster::Entity, Column::Id)));
        Condition::any().add(Column::TotalTasks.eq(0)).add(Expr::exists(computations.into_query()))
    }
}
