//! Clusters: one row per scheduler, written by every report.

use std::collections::HashSet;

use entity::{
    Timestamp,
    cluster::{ActiveModel, Column, DesiredState, Entity, Model, Status},
    ids::{AccountId, ClusterId, UserId},
    list::{Counts, Receipt},
};
use sea_orm::{
    ActiveModelTrait,
    ActiveValue::NotSet,
    ColumnTrait, FromQueryResult, IntoActiveModel, PaginatorTrait, QueryFilter, QuerySelect,
    sea_query::{Expr, Func, OnConflict},
};

use super::{
    arrival::LATE_MS,
    cluster_filter::ClusterFilter,
    data_policy,
    error::StoreError,
    page::{self, Key, KeyPart, Page, PageRequest, Slice, Sort},
    scoped::AccountStore,
};
use crate::domain::{
    bounded::{Count, Seconds, Text, UnixTime},
    cost::Currency,
    data_class::{Accepted, receipt},
    report::Report,
};

/// An order clusters can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterSort {
    /// By what.
    pub by: ClusterSortBy,
    /// Whether large and late ones come first.
    pub descending: bool,
}

/// By what clusters can be ordered. Times have an index; the others read all clusters that pass the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterSortBy {
    /// When the scheduler started.
    StartedAt,
    /// When it closed; what has not closed is later than all that has.
    EndedAt,
    /// How long it ran, or is known to have run.
    Duration,
    /// Thread-seconds it offered.
    ThreadSeconds,
    /// Thread-seconds it computed.
    ComputeSeconds,
    /// Errors recorded.
    Errors,
    /// Tasks it was given.
    Tasks,
    /// When it was last heard of.
    LastSeenAt,
    /// What it cost in a currency. No row holds that: see [`AccountStore::cluster_page_by_cost`].
    Cost(Currency),
}

impl ClusterSortBy {
    /// Where a row says it, if it does.
    fn column(self) -> Option<Column> {
        let column = match self {
            Self::Cost(_) => return None,
            Self::StartedAt => Column::StartedAt,
            Self::EndedAt => Column::EndedKey,
            Self::Duration => Column::DurationMs,
            Self::ThreadSeconds => Column::TotalThreadSeconds,
            Self::ComputeSeconds => Column::TotalComputeSeconds,
            Self::Errors => Column::TotalErrors,
            Self::Tasks => Column::TotalTasks,
            Self::LastSeenAt => Column::LastSeenAt,
        };
        Some(column)
    }

    fn position(self, row: &Model) -> Option<KeyPart> {
        let position = match self {
            Self::Cost(_) => return None,
            Self::StartedAt => row.started_at.into(),
            Self::EndedAt => KeyPart::Integer(row.ended_key),
            Self::Duration => KeyPart::Integer(row.duration_ms),
            Self::ThreadSeconds => KeyPart::real(row.total_thread_seconds),
            Self::ComputeSeconds => KeyPart::real(row.total_compute_seconds),
            Self::Errors => KeyPart::Integer(row.total_errors),
            Self::Tasks => KeyPart::Integer(row.total_tasks),
            Self::LastSeenAt => row.last_seen_at.into(),
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
        let [position, KeyPart::Integer(_)] = key.0[..] else { return false };
        match self.by {
            ClusterSortBy::Cost(_) => false,
            ClusterSortBy::ThreadSeconds | ClusterSortBy::ComputeSeconds => position.is_real(),
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

/// A currency in a position, so that one in the order of another currency is refused.
fn currency_key(currency: Currency) -> KeyPart {
    KeyPart::Integer(currency.number())
}

impl AccountStore {
    /// A page of the account's clusters that pass the filter.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster.page", skip_all)]
    pub async fn cluster_page(
        &self,
        filter: &ClusterFilter,
        sort: ClusterSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.filtered_clusters(&filter.behind(sort, request));
        page::fetch(&self.reads(), select, sort, request).await
    }

    /// A slice of the account's clusters that pass the filter, those that started last first.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster.slice", skip_all)]
    pub async fn cluster_slice(
        &self,
        filter: &ClusterFilter,
        slice: Slice,
    ) -> Result<Vec<Model>, StoreError> {
        let sort = ClusterSort { by: ClusterSortBy::StartedAt, descending: true };
        page::fetch_slice(&self.reads(), self.filtered_clusters(filter), sort, slice).await
    }

    /// What the clusters have together that report.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster.in_use", skip_all)]
    pub async fn in_use(&self) -> Result<InUse, StoreError> {
        let sum =
            |column: Column| Expr::from(Func::cast_as(Func::sum(Expr::col((Entity, column))), "bigint"));
        let select = self
            .select::<Entity>()
            .select_only()
            .expr_as(Column::Id.count(), "clusters")
            .expr_as(sum(Column::Workers), "workers")
            .expr_as(sum(Column::Threads), "threads")
            .filter(Column::Status.eq(Status::Running));
        let row: Option<InUse> = select.into_model().one(&self.reads()).await?;
        Ok(row.unwrap_or_default())
    }

    /// How many clusters pass the filter.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster.count", skip_all)]
    pub async fn cluster_count(&self, filter: &ClusterFilter) -> Result<u64, StoreError> {
        Ok(self.filtered_clusters(filter).count(&self.reads()).await?)
    }

    /// The clusters that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster.by_id", skip_all)]
    pub async fn clusters_by_id(&self, ids: &[ClusterId]) -> Result<Vec<Model>, StoreError> {
        Ok(self.select::<Entity>().filter(Column::Id.is_in(ids.iter().copied())).all(&self.reads()).await?)
    }

    /// Those of some clusters that pass the filter, or would but for what changes by itself, in no particular order, and
    /// whether they do.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.cluster.passing", skip_all)]
    pub async fn passing_clusters(
        &self,
        filter: &ClusterFilter,
        ids: &[ClusterId],
    ) -> Result<Vec<(Model, bool)>, StoreError> {
        let lasting = filter.lasting();
        let among = |filter| self.filtered_clusters(filter).filter(Column::Id.is_in(ids.iter().copied()));
        let rows = among(&lasting).all(&self.reads()).await?;
        if lasting == *filter || rows.is_empty() {
            return Ok(rows.into_iter().map(|row| (row, true)).collect());
        }
        let passing: Vec<ClusterId> =
            among(filter).select_only().column(Column::Id).into_tuple().all(&self.reads()).await?;
        let passing: HashSet<ClusterId> = passing.into_iter().collect();
        let passes = |row: Model| {
            let passes = passing.contains(&row.id);
            (row, passes)
        };
        Ok(rows.into_iter().map(passes).collect())
    }

    /// The cluster of a scheduler, held against other writers until the transaction ends, and what its account
    /// wants now.
    pub(crate) async fn lock_cluster(&self, scheduler_id: &str) -> Result<Option<KnownCluster>, StoreError> {
        let select = self.select::<Entity>().filter(Column::SchedulerId.eq(scheduler_id)).lock_exclusive();
        let locked: Option<Locked> = select
            .expr_as(self.refused(), "refused")
            .expr_as(self.kept_until(), "kept_until")
            .expr_as(self.idle_due_seconds(), "idle_due_seconds")
            .into_model()
            .one(&self.writes())
            .await?;
        Ok(locked.map(|locked| KnownCluster {
            accepted: data_policy::accepted(locked.refused.as_deref()),
            row: locked.cluster,
            kept_until: locked.kept_until,
            idle_due_seconds: locked.idle_due_seconds,
        }))
    }

    /// Adds the cluster of a scheduler. Returns whether it did: not if the identifier is taken or another
    /// report of the same scheduler was faster.
    pub(crate) async fn add_cluster(
        &self,
        id: ClusterId,
        user: UserId,
        now: Timestamp,
        report: &Report,
        accepted: &Accepted,
    ) -> Result<bool, StoreError> {
        let kept = Kept {
            account_id: self.account_id(),
            id,
            user_id: Some(user),
            desired_state: DesiredState::Running,
            first_seen_at: now,
            last_seen_at: now,
            complete_until: complete_until(NOTHING, report),
            receipt: receipt(&Receipt::default(), accepted, &report.receipt),
            changed_at: now.timestamp_millis(),
            late_at: if is_late(report, now.timestamp_millis()) { now.timestamp_millis() } else { 0 },
        };
        // Without a target, because either unique key may be the one that is taken.
        let add_or_nothing = OnConflict::new().do_nothing().to_owned();
        Ok(self.insert::<Entity>(vec![row(kept, report)], &add_or_nothing).await? == 1)
    }

    /// Writes what a report says over the cluster `known`, unless a newer one was there before; that the
    /// scheduler was heard of counts in any case, and that its `arrival` changed something. Returns the cluster as it is then.
    pub(crate) async fn update_cluster(
        &self,
        known: Model,
        now: Timestamp,
        arrival: i64,
        report: &Report,
        accepted: &Accepted,
    ) -> Result<Model, StoreError> {
        let status_before = known.status;
        let last_seen_at = Timestamp::from(known.last_seen_at.0.max(now.0));
        let complete_until = complete_until(known.complete_until, report);
        let late_at = if is_late(report, arrival) { arrival } else { known.late_at };
        let row = if report.sequence.get() > known.sequence {
            let Model { account_id, id, user_id, desired_state, first_seen_at, .. } = known;
            let receipt = receipt(&known.receipt, accepted, &report.receipt);
            let kept = Kept {
                account_id,
                id,
                user_id,
                desired_state,
                first_seen_at,
                last_seen_at,
                complete_until,
                receipt,
                changed_at: arrival,
                late_at,
            };
            row(kept, report)
        } else if status_before == Status::Lost {
            let (status, ended_key) = (Status::Running, NOT_ENDED);
            Model { last_seen_at, complete_until, status, ended_key, changed_at: arrival, late_at, ..known }
        } else {
            Model { last_seen_at, complete_until, changed_at: arrival, late_at, ..known }
        };
        let columns = row.clone().into_active_model().reset_all();
        self.update::<Entity>()
            .filter(Column::Id.eq(row.id))
            .set(ActiveModel { account_id: NotSet, id: NotSet, ..columns })
            .exec(&self.writes())
            .await?;
        if status_before != Status::Running && status_before != row.status {
            self.find_computations_again(row.id, arrival).await?;
        }
        Ok(row)
    }
}

/// What the clusters have together that report, as of the last report of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromQueryResult)]
pub struct InUse {
    /// How many they are.
    pub clusters: i64,
    /// Their workers; none if there are no clusters.
    pub workers: Option<i64>,
    /// Their threads; none if there are no clusters.
    pub threads: Option<i64>,
}

/// A cluster that is locked.
#[derive(FromQueryResult)]
struct Locked {
    #[sea_orm(nested)]
    cluster: Model,
    refused: Option<String>,
    kept_until: Option<Timestamp>,
    idle_due_seconds: Option<i64>,
}

/// A cluster that is locked, with what its account wants.
pub(crate) struct KnownCluster {
    pub(crate) row: Model,
    pub(crate) accepted: Accepted,
    /// Until when somebody keeps it.
    pub(crate) kept_until: Option<Timestamp>,
    /// After how many seconds without work something is done about it, if anything ever is.
    pub(crate) idle_due_seconds: Option<i64>,
}

/// Where clusters stand that have not ended, in the order of their ends.
const NOT_ENDED: i64 = i64::MAX;

/// What a report does not say alone.
struct Kept {
    account_id: AccountId,
    id: ClusterId,
    user_id: Option<UserId>,
    desired_state: DesiredState,
    first_seen_at: Timestamp,
    last_seen_at: Timestamp,
    complete_until: i64,
    receipt: Receipt,
    changed_at: i64,
    late_at: i64,
}

/// Whether a report brings something that happened so long before it that nobody would look there for what is new.
fn is_late(report: &Report, arrival: i64) -> bool {
    report.oldest().is_some_and(|oldest| oldest < arrival - LATE_MS)
}

/// The sequence up to which an unknown cluster's reports are complete.
pub(crate) const NOTHING: i64 = -1;

/// Up to which sequence everything is there once `report` is. A report holds what changed since its base, so it
/// adds to what is complete only if that reaches to the base.
fn complete_until(before: i64, report: &Report) -> i64 {
    if report.base.is_none_or(|base| base.get() <= before) {
        before.max(report.sequence.get())
    } else {
        before
    }
}

fn row(kept: Kept, report: &Report) -> Model {
    let Report { cluster, dropped, .. } = report;
    let totals = &cluster.totals;
    let text = |text: &Option<Text<2_048>>| text.as_ref().map(|text| text.as_str().to_owned());
    let (started_at, reported_at) = (cluster.started_at.timestamp(), report.sent_at.timestamp());
    let closed_at = report.closed_at().map(UnixTime::timestamp);
    Model {
        account_id: kept.account_id,
        id: kept.id,
        scheduler_id: report.scheduler_id.as_str().to_owned(),
        user_id: kept.user_id,
        name: text(&cluster.name),
        address: text(&cluster.address),
        dashboard_url: text(&cluster.dashboard_url),
        status: if report.is_final { Status::Closed } else { Status::Running },
        desired_state: kept.desired_state,
        sequence: report.sequence.get(),
        complete_until: kept.complete_until,
        reported_at,
        interval_seconds: report.interval_seconds.get(),
        first_seen_at: kept.first_seen_at,
        last_seen_at: kept.last_seen_at,
        started_at,
        closed_at,
        close_reason: text(&cluster.close_reason),
        idle_since: cluster.idle_since.map(UnixTime::timestamp),
        workers: cluster.workers.get(),
        threads: cluster.threads.get(),
        memory_limit_bytes: cluster.memory_limit_bytes.map(Count::get),
        memory_used_bytes: cluster.memory_used_bytes.get(),
        total_tasks: totals.tasks.get(),
        total_tasks_succeeded: totals.tasks_succeeded.get(),
        total_tasks_erred: totals.tasks_erred.get(),
        total_errors: totals.errors.get(),
        total_compute_seconds: totals.compute_seconds.get(),
        total_transfer_seconds: totals.transfer_seconds.get(),
        total_thread_seconds: totals.thread_seconds.get(),
        total_bytes: totals.bytes.get(),
        total_workers: totals.workers.get(),
        peak_workers: totals.peak_workers.get(),
        peak_threads: totals.peak_threads.get(),
        ended_key: closed_at.map_or(NOT_ENDED, |time| time.timestamp_millis()),
        duration_ms: closed_at.unwrap_or(reported_at).timestamp_millis() - started_at.timestamp_millis(),
        idle_timeout_seconds: cluster.idle_timeout_seconds.map(Seconds::get),
        graph_updates: cluster.graph_updates.map(Count::get),
        environment_id: cluster.environment_id,
        dropped: Counts(dropped.counts()),
        receipt: kept.receipt,
        changed_at: kept.changed_at,
        late_at: kept.late_at,
    }
}
