//! The orders of lists of clusters.

use entity::{
    cluster::{Column, Entity, Model},
    membership, user,
};
use sea_orm::sea_query::{Expr, ExprTrait, Func, Query};

use super::cluster_filter::ClusterFilter;
use crate::{
    domain::cost::Currency,
    store::core::{
        error::StoreError,
        page::{self, ComputedValue, Key, KeyPart, Page, PageRequest, Sort},
        scoped::AccountStore,
    },
};

/// The share of the thread time that computed. Numbers too small to measure are left out, because PostgreSQL
/// refuses a quotient that no number can represent.
const UTILIZATION: &str = r#"CASE WHEN "clusters"."total_thread_seconds" >= 0.001 AND "clusters"."total_compute_seconds" >= 0.001
     THEN "clusters"."total_compute_seconds" / "clusters"."total_thread_seconds" ELSE CAST(0 AS double precision) END"#;

/// The time without work, as `domain/idle_verdict.rs` computes it.
const IDLE_TIME: &str = r#"CASE WHEN "clusters"."closed_at" > "clusters"."reported_at" AND "clusters"."closed_at" > "clusters"."idle_since"
     THEN CAST("clusters"."closed_at" - "clusters"."idle_since" AS double precision)
     WHEN "clusters"."reported_at" > "clusters"."idle_since"
     THEN CAST("clusters"."reported_at" - "clusters"."idle_since" AS double precision)
     ELSE CAST(0 AS double precision) END"#;

/// The orders clusters can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterSort {
    /// The value to order by.
    pub by: ClusterSortBy,
    /// True if large or late values come first.
    pub descending: bool,
}

impl ClusterSort {
    /// The default order: by the time of their start, the newest first.
    pub const NEWEST_FIRST: Self = Self { by: ClusterSortBy::StartedAt, descending: true };
}

/// The value that clusters are ordered by. Times have an index. The other orders read all clusters that
/// pass the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterSortBy {
    /// The start of the scheduler.
    StartedAt,
    /// The end of the cluster. Clusters that have not ended come after all that have.
    EndedAt,
    /// The time that the cluster ran, as far as it is known.
    Duration,
    /// The thread time that the cluster offered.
    ThreadSeconds,
    /// The thread time that the cluster computed.
    ComputeSeconds,
    /// The number of recorded errors.
    Errors,
    /// The number of tasks.
    Tasks,
    /// The time of the last report.
    LastSeenAt,
    /// The number of workers as of the last report.
    Workers,
    /// The largest number of workers at a time.
    PeakWorkers,
    /// The memory in use as of the last report.
    MemoryUsed,
    /// The name, in lower case. No column holds it, nor the following values.
    Name,
    /// The name of the user, in lower case.
    User,
    /// The share of the thread time that computed.
    Utilization,
    /// The time without work.
    IdleTime,
    /// The cost in a currency: see [`AccountStore::cluster_page_by_cost`].
    Cost(Currency),
}

impl ClusterSortBy {
    /// Returns the column of the value. `None` if no column holds it.
    fn column(self) -> Option<Column> {
        let column = match self {
            Self::Name | Self::User | Self::Utilization | Self::IdleTime | Self::Cost(_) => return None,
            Self::StartedAt => Column::StartedAt,
            Self::EndedAt => Column::EndedKey,
            Self::Duration => Column::DurationMs,
            Self::ThreadSeconds => Column::TotalThreadSeconds,
            Self::ComputeSeconds => Column::TotalComputeSeconds,
            Self::Errors => Column::TotalErrors,
            Self::Tasks => Column::TotalTasks,
            Self::LastSeenAt => Column::LastSeenAt,
            Self::Workers => Column::Workers,
            Self::PeakWorkers => Column::PeakWorkers,
            Self::MemoryUsed => Column::MemoryUsedBytes,
        };
        Some(column)
    }

    fn position(self, row: &Model) -> Option<KeyPart> {
        let position = match self {
            Self::Name | Self::User | Self::Utilization | Self::IdleTime | Self::Cost(_) => return None,
            Self::StartedAt => row.started_at.into(),
            Self::EndedAt => KeyPart::Integer(row.ended_key),
            Self::Duration => KeyPart::Integer(row.duration_ms),
            Self::ThreadSeconds => KeyPart::real(row.total_thread_seconds),
            Self::ComputeSeconds => KeyPart::real(row.total_compute_seconds),
            Self::Errors => KeyPart::Integer(row.total_errors),
            Self::Tasks => KeyPart::Integer(row.total_tasks),
            Self::LastSeenAt => row.last_seen_at.into(),
            Self::Workers => KeyPart::Integer(row.workers),
            Self::PeakWorkers => KeyPart::Integer(row.peak_workers),
            Self::MemoryUsed => KeyPart::Integer(row.memory_used_bytes),
        };
        Some(position)
    }
}

impl Sort for ClusterSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        match (self.by, self.descending) {
            (ClusterSortBy::StartedAt, false) => "started_at:asc",
            (ClusterSortBy::StartedAt, true) => "started_at:desc",
            (ClusterSortBy::EndedAt, false) => "ended_at:asc",
            (ClusterSortBy::EndedAt, true) => "ended_at:desc",
            (ClusterSortBy::Duration, false) => "duration:asc",
            (ClusterSortBy::Duration, true) => "duration:desc",
            (ClusterSortBy::ThreadSeconds, false) => "thread_seconds:asc",
            (ClusterSortBy::ThreadSeconds, true) => "thread_seconds:desc",
            (ClusterSortBy::ComputeSeconds, false) => "compute_seconds:asc",
            (ClusterSortBy::ComputeSeconds, true) => "compute_seconds:desc",
            (ClusterSortBy::Errors, false) => "errors:asc",
            (ClusterSortBy::Errors, true) => "errors:desc",
            (ClusterSortBy::Tasks, false) => "tasks:asc",
            (ClusterSortBy::Tasks, true) => "tasks:desc",
            (ClusterSortBy::LastSeenAt, false) => "last_seen_at:asc",
            (ClusterSortBy::LastSeenAt, true) => "last_seen_at:desc",
            (ClusterSortBy::Workers, false) => "workers:asc",
            (ClusterSortBy::Workers, true) => "workers:desc",
            (ClusterSortBy::PeakWorkers, false) => "peak_workers:asc",
            (ClusterSortBy::PeakWorkers, true) => "peak_workers:desc",
            (ClusterSortBy::MemoryUsed, false) => "memory_used:asc",
            (ClusterSortBy::MemoryUsed, true) => "memory_used:desc",
            (ClusterSortBy::Name, false) => "name:asc",
            (ClusterSortBy::Name, true) => "name:desc",
            (ClusterSortBy::User, false) => "user:asc",
            (ClusterSortBy::User, true) => "user:desc",
            (ClusterSortBy::Utilization, false) => "utilization:asc",
            (ClusterSortBy::Utilization, true) => "utilization:desc",
            (ClusterSortBy::IdleTime, false) => "idle_time:asc",
            (ClusterSortBy::IdleTime, true) => "idle_time:desc",
            (ClusterSortBy::Cost(_), false) => "cost:asc",
            (ClusterSortBy::Cost(_), true) => "cost:desc",
        }
    }

    fn columns(self) -> Vec<Column> {
        self.by.column().into_iter().chain([Column::Id]).collect()
    }

    fn descending(self) -> bool {
        self.descending
    }

    fn accepts(self, key: &Key) -> bool {
        if let (ClusterSortBy::Cost(currency), [cost, KeyPart::Integer(_), of]) = (self.by, &key.0[..]) {
            return cost.is_real() && *of == currency_key(currency);
        }
        let [position, KeyPart::Integer(_)] = &key.0[..] else { return false };
        match self.by {
            ClusterSortBy::Cost(_) => false,
            ClusterSortBy::Name | ClusterSortBy::User => position.is_text(),
            ClusterSortBy::ThreadSeconds
            | ClusterSortBy::ComputeSeconds
            | ClusterSortBy::Utilization
            | ClusterSortBy::IdleTime => position.is_real(),
            _ => matches!(position, KeyPart::Integer(_)),
        }
    }

    fn key(self, row: &Model) -> Key {
        let mut key: Vec<KeyPart> = self.by.position(row).into_iter().chain([row.id.into()]).collect();
        if let ClusterSortBy::Cost(currency) = self.by {
            key.push(currency_key(currency));
        }
        Key(key)
    }
}

/// Returns the currency as a part of a position, so that a cursor of another currency's order is refused.
fn currency_key(currency: Currency) -> KeyPart {
    KeyPart::Integer(currency.number())
}

impl AccountStore {
    /// Returns a page of the account's clusters that pass the filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster.page", skip_all)]
    pub async fn cluster_page(
        &self,
        filter: &ClusterFilter,
        sort: ClusterSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.filtered_clusters(&filter.without_implied_bounds(sort, request));
        match self.computed_order(sort.by) {
            Some(value) => page::fetch_by_value(&self.read_executor(), select, value, sort, request).await,
            None => page::fetch(&self.read_executor(), select, sort, request).await,
        }
    }

    /// Returns the value of an order that no column holds. `None` if one does, and for costs.
    fn computed_order(&self, by: ClusterSortBy) -> Option<ComputedValue> {
        let lower = |name: Expr| Func::coalesce([Func::lower(name).into(), Expr::cust("''")]).into();
        Some(match by {
            ClusterSortBy::Name => ComputedValue::Text(lower(self.by_bytes(r#""clusters"."name""#))),
            ClusterSortBy::User => {
                let member = |column: membership::Column| Expr::col((membership::Entity, column));
                let name = Query::select()
                    .expr(self.by_bytes(r#""users"."name""#))
                    .from(user::Entity)
                    .inner_join(
                        membership::Entity,
                        member(membership::Column::UserId).equals((user::Entity, user::Column::Id)),
                    )
                    .and_where(member(membership::Column::AccountId).eq(self.account_id().0))
                    .and_where(Expr::col((user::Entity, user::Column::Id)).equals((Entity, Column::UserId)))
                    .take();
                ComputedValue::Text(lower(Expr::SubQuery(None, Box::new(name.into()))))
            }
            ClusterSortBy::Utilization => ComputedValue::Number(Expr::cust(UTILIZATION)),
            ClusterSortBy::IdleTime => ComputedValue::Number(Expr::cust(IDLE_TIME)),
            _ => return None,
        })
    }
}
