//! Clusters: one row per scheduler, written by every report.

use std::collections::{BTreeSet, HashSet};

use entity::{
    Timestamp,
    cluster::{ActiveModel, Column, DesiredState, Entity, Model, Status},
    cluster_removal,
    ids::{AccountId, ApiTokenId, ClusterId, UserId},
    json_columns::{Counts, Names, Receipt},
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::NotSet, ColumnTrait, FromQueryResult, IntoActiveModel, PaginatorTrait,
    QueryFilter, QuerySelect, sea_query::OnConflict,
};

use super::{cluster_filter::ClusterFilter, cluster_order::ClusterSort};
use crate::{
    domain::{
        data_class::{Accepted, receipt},
        report::Report,
        validated::{Count, Seconds, Text, UnixTime},
    },
    store::{
        accounts::data_policy,
        core::{
            change_feed::LATE_AFTER_MS,
            composite_in::IsOneOf,
            error::StoreError,
            page::{self, Slice},
            read_rows::ReadSelect,
            scoped::AccountStore,
        },
        costs::usage_hour::sum_of,
    },
};

impl AccountStore {
    /// Returns a slice of the account's clusters that pass the filter, the latest start first.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster.slice", skip_all)]
    pub async fn cluster_slice(
        &self,
        filter: &ClusterFilter,
        slice: Slice,
    ) -> Result<Vec<Model>, StoreError> {
        let sort = ClusterSort::NEWEST_FIRST;
        page::fetch_slice(&self.read_executor(), self.filtered_clusters(filter), sort, slice).await
    }

    /// Returns the totals of the clusters that report.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster.in_use", skip_all)]
    pub async fn load_running_totals(&self) -> Result<RunningTotals, StoreError> {
        let sum = |column: Column| sum_of(self.backend(), (Entity, column));
        let select = self
            .select::<Entity>()
            .select_only()
            .expr_as(Column::Id.count(), "clusters")
            .expr_as(sum(Column::Workers), "workers")
            .expr_as(sum(Column::Threads), "threads")
            .filter(Column::Status.eq(Status::Running));
        let row: Option<RunningTotals> = select.into_model().one(&self.read_executor()).await?;
        Ok(row.unwrap_or_default())
    }

    /// Counts the clusters that pass the filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster.count", skip_all)]
    pub async fn cluster_count(&self, filter: &ClusterFilter) -> Result<u64, StoreError> {
        Ok(self.filtered_clusters(filter).count(&self.read_executor()).await?)
    }

    /// Returns the clusters that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster.by_id", skip_all)]
    pub async fn clusters_by_id(&self, ids: &[ClusterId]) -> Result<Vec<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Id.is_one_of(ids.iter().copied()));
        Ok(select.read_models(&self.read_executor()).await?)
    }

    /// Returns the clusters among `ids` that pass the filter or fail only its time-dependent conditions, in
    /// no particular order. The flag is true for clusters that pass.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.cluster.passing", skip_all)]
    pub async fn match_clusters(
        &self,
        filter: &ClusterFilter,
        ids: &[ClusterId],
    ) -> Result<Vec<(Model, bool)>, StoreError> {
        let lasting = filter.without_time_dependent_conditions();
        let select_among =
            |filter| self.filtered_clusters(filter).filter(Column::Id.is_one_of(ids.iter().copied()));
        let rows = select_among(&lasting).read_models(&self.read_executor()).await?;
        if lasting == *filter || rows.is_empty() {
            return Ok(rows.into_iter().map(|row| (row, true)).collect());
        }
        let passing_ids: Vec<ClusterId> =
            select_among(filter).select_only().column(Column::Id).read_column(&self.read_executor()).await?;
        let passing_ids: HashSet<ClusterId> = passing_ids.into_iter().collect();
        let with_match = |row: Model| {
            let is_match = passing_ids.contains(&row.id);
            (row, is_match)
        };
        Ok(rows.into_iter().map(with_match).collect())
    }

    /// Locks the row of a scheduler's cluster, hidden or not, until the transaction ends. Returns it with
    /// the settings of its account that apply now, and with the time of the last known report with `token`.
    pub(crate) async fn lock_cluster(
        &self,
        scheduler_id: &str,
        token: Option<ApiTokenId>,
    ) -> Result<Option<KnownCluster>, StoreError> {
        let select = self.select_with_hidden::<Entity>().filter(Column::SchedulerId.eq(scheduler_id));
        let locked: Option<Locked> = select
            .lock_exclusive()
            .expr_as(self.removal_state_subquery(), "removal")
            .expr_as(self.reporter_seen_at_subquery(token), "reporter_seen_at")
            .expr_as(self.refused(), "refused")
            .expr_as(self.kept_until_subquery(), "kept_until")
            .expr_as(self.idle_due_seconds(), "idle_due_seconds")
            .into_model()
            .one(&self.write_executor())
            .await?;
        Ok(locked.map(|locked| KnownCluster {
            accepted: data_policy::accepted(locked.refused.as_deref()),
            row: locked.cluster,
            kept_until: locked.kept_until,
            idle_due_seconds: locked.idle_due_seconds,
            removal: locked.removal,
            reporter_seen_at: locked.reporter_seen_at,
        }))
    }

    /// Adds the cluster of a scheduler. Returns false if the identifier is taken or another report of the
    /// same scheduler added the cluster first.
    pub(crate) async fn add_cluster(
        &self,
        id: ClusterId,
        user: UserId,
        now: Timestamp,
        report: &Report,
        accepted: &Accepted,
    ) -> Result<bool, StoreError> {
        let fields = ServerFields {
            account_id: self.account_id(),
            id,
            user_id: Some(user),
            desired_state: DesiredState::Running,
            first_seen_at: now,
            last_seen_at: now,
            complete_until: extend_complete_until(NO_REPORTS, report),
            receipt: receipt(&Receipt::default(), accepted, &report.receipt),
            cut: merge_clamped_fields(&Names::default(), report),
            peak_memory_bytes: Some(report.cluster.memory_used_bytes.get()),
            changed_at: now.timestamp_millis(),
            late_at: if is_late(report, now.timestamp_millis()) { now.timestamp_millis() } else { 0 },
        };
        // There is no conflict target, because either unique key may be the one that is taken.
        let add_or_nothing = OnConflict::new().do_nothing().to_owned();
        Ok(self.insert::<Entity>(vec![row(fields, report)], &add_or_nothing).await? == 1)
    }

    /// Updates the cluster `stored` with a report, unless a newer report is stored. The time of the last
    /// report and the change number `arrival` are written in any case. Returns the updated cluster.
    pub(crate) async fn update_cluster(
        &self,
        stored: Model,
        now: Timestamp,
        arrival: i64,
        report: &Report,
        accepted: &Accepted,
    ) -> Result<Model, StoreError> {
        let status_before = stored.status;
        let last_seen_at = Timestamp::from(stored.last_seen_at.0.max(now.0));
        let complete_until = extend_complete_until(stored.complete_until, report);
        let late_at = if is_late(report, arrival) { arrival } else { stored.late_at };
        let cut = merge_clamped_fields(&stored.cut, report);
        let used = report.cluster.memory_used_bytes.get();
        let peak_memory_bytes = stored.peak_memory_bytes.map(|peak| peak.max(used));
        let row = if report.sequence.get() > stored.sequence {
            let Model { account_id, id, user_id, desired_state, first_seen_at, .. } = stored;
            let receipt = receipt(&stored.receipt, accepted, &report.receipt);
            let fields = ServerFields {
                account_id,
                id,
                user_id,
                desired_state,
                first_seen_at,
                last_seen_at,
                complete_until,
                receipt,
                cut,
                peak_memory_bytes,
                changed_at: arrival,
                late_at,
            };
            row(fields, report)
        } else if status_before == Status::Lost {
            let (status, ended_key) = (Status::Running, NOT_ENDED);
            Model {
                last_seen_at,
                complete_until,
                status,
                ended_key,
                cut,
                peak_memory_bytes,
                changed_at: arrival,
                late_at,
                ..stored
            }
        } else {
            Model {
                last_seen_at,
                complete_until,
                cut,
                peak_memory_bytes,
                changed_at: arrival,
                late_at,
                ..stored
            }
        };
        let columns = row.clone().into_active_model().reset_all();
        self.update::<Entity>()
            .filter(Column::Id.eq(row.id))
            .set(ActiveModel { account_id: NotSet, id: NotSet, ..columns })
            .exec(&self.write_executor())
            .await?;
        if status_before != Status::Running && status_before != row.status {
            self.restore_lost_computations(row.id, arrival).await?;
        }
        Ok(row)
    }
}

/// Totals of the clusters that report, as of the last report of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromQueryResult)]
pub struct RunningTotals {
    /// The number of clusters.
    pub clusters: i64,
    /// Their workers. `None` if there are no clusters.
    pub workers: Option<i64>,
    /// Their threads. `None` if there are no clusters.
    pub threads: Option<i64>,
}

/// The row of a locked cluster.
#[derive(FromQueryResult)]
struct Locked {
    #[sea_orm(nested)]
    cluster: Model,
    refused: Option<String>,
    kept_until: Option<Timestamp>,
    idle_due_seconds: Option<i64>,
    removal: Option<cluster_removal::State>,
    reporter_seen_at: Option<Timestamp>,
}

/// A locked cluster, with the settings of its account.
pub(crate) struct KnownCluster {
    pub(crate) row: Model,
    pub(crate) accepted: Accepted,
    /// The time until which a member protects it from being stopped for idleness.
    pub(crate) kept_until: Option<Timestamp>,
    /// The number of seconds without work after which the idle policy acts. `None` if it never does.
    pub(crate) idle_due_seconds: Option<i64>,
    /// The stage of its removal. `None` if it is shown.
    pub(crate) removal: Option<cluster_removal::State>,
    /// The last known report with the token in question.
    pub(crate) reporter_seen_at: Option<Timestamp>,
}

/// The position of clusters that have not ended, in the order of their ends.
const NOT_ENDED: i64 = i64::MAX;

/// Values of a row that do not follow from the report alone.
struct ServerFields {
    account_id: AccountId,
    id: ClusterId,
    user_id: Option<UserId>,
    desired_state: DesiredState,
    first_seen_at: Timestamp,
    last_seen_at: Timestamp,
    complete_until: i64,
    receipt: Receipt,
    cut: Names,
    peak_memory_bytes: Option<i64>,
    changed_at: i64,
    late_at: i64,
}

/// Returns true if a report adds something so much older than itself that readers of new rows would not
/// look there.
fn is_late(report: &Report, arrival: i64) -> bool {
    report.oldest_item_ms().is_some_and(|oldest| oldest < arrival - LATE_AFTER_MS)
}

/// The sequence number up to which the reports of an unknown cluster are complete.
pub(crate) const NO_REPORTS: i64 = -1;

/// Returns the sequence number up to which no report is missing once `report` is stored. A report holds the
/// changes since its base, so it extends the complete reports only if they reach to the base.
fn extend_complete_until(previous: i64, report: &Report) -> i64 {
    if report.base.is_none_or(|base| base.get() <= previous) {
        previous.max(report.sequence.get())
    } else {
        previous
    }
}

fn row(fields: ServerFields, report: &Report) -> Model {
    let Report { cluster, dropped, .. } = report;
    let totals = &cluster.totals;
    let text = |text: &Option<Text<2_048>>| text.as_ref().map(|text| text.as_str().to_owned());
    let (started_at, reported_at) = (cluster.started_at.timestamp(), report.sent_at.timestamp());
    let closed_at = report.closed_at().map(UnixTime::timestamp);
    Model {
        account_id: fields.account_id,
        id: fields.id,
        scheduler_id: report.scheduler_id.as_str().to_owned(),
        user_id: fields.user_id,
        name: text(&cluster.name),
        address: text(&cluster.address),
        dashboard_url: text(&cluster.dashboard_url),
        status: if report.is_final { Status::Closed } else { Status::Running },
        desired_state: fields.desired_state,
        sequence: report.sequence.get(),
        complete_until: fields.complete_until,
        reported_at,
        interval_seconds: report.interval_seconds.get(),
        first_seen_at: fields.first_seen_at,
        last_seen_at: fields.last_seen_at,
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
        peak_memory_bytes: fields.peak_memory_bytes,
        ended_key: closed_at.map_or(NOT_ENDED, |time| time.timestamp_millis()),
        duration_ms: closed_at.unwrap_or(reported_at).timestamp_millis() - started_at.timestamp_millis(),
        idle_timeout_seconds: cluster.idle_timeout_seconds.map(Seconds::get),
        graph_updates: cluster.graph_updates.map(Count::get),
        partial: text(&cluster.partial),
        environment_id: cluster.environment_id,
        dropped: Counts(dropped.counts()),
        receipt: fields.receipt,
        changed_at: fields.changed_at,
        late_at: fields.late_at,
        cut: fields.cut,
    }
}

/// Returns the paths of the fields whose values were clamped, over all reports so far.
fn merge_clamped_fields(previous: &Names, report: &Report) -> Names {
    let mut paths: BTreeSet<&str> = previous.0.iter().map(String::as_str).collect();
    for path in &report.clamped {
        paths.insert(*path);
    }
    Names(paths.into_iter().map(str::to_owned).collect())
}
