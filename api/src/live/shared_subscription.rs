//! Equal subscriptions as one group: each change is read once and each payload is written once.

use std::{
    collections::BTreeMap,
    mem,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_graphql::{Response, ServerError};
use axum::body::Bytes;
use entity::ids::ClusterId;
use futures::FutureExt;
use tokio::{
    sync::{Notify, OnceCell, watch},
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

use super::{
    catch_up::{Batch, CatchUp},
    replay_buffer::ReplayBuffer,
    reported_removals::ReportedRemovals,
    round_pacing::{RoundPacing, poll_until},
};
use crate::{
    bus::{BusSubscription, Changes},
    clock::Clock,
    domain::stream_cursor::{Position, SETTLED_AFTER_MS, Stream},
    error::{Chain, panic_message},
    graphql::{
        ExecutionContext, PayloadContent, Schema, SubscriptionPlan, finalize_response, log_defect, mark_gap,
        serialize_response,
    },
    guard::Template,
    metrics::{GaugeGuard, LiveMetrics},
    store::{AccountStore, AccountTable, ChangedCluster, ChangedRow, PendingChanges, Store, StoreError},
};

/// The limit of changed clusters, or of changed rows of the account, that a catch-up reads. With more, the
/// subscription reports a gap.
const MAX_CHANGED: usize = 5_000;

/// The number of payloads that are written ahead of the fastest reader.
const MAX_UNREAD_PAYLOADS: u64 = 16;

/// The retry delay after a failed read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Equal subscriptions. The group's task ends when the group is dropped.
pub(super) struct SharedSubscription {
    shared: Arc<SubscriptionState>,
    tail: OnceCell<PollTask>,
    _group_count: GaugeGuard,
}

/// The state shared by the task and the readers of a group.
pub(super) struct SubscriptionState {
    plan: SubscriptionPlan,
    renderer: Renderer,
    store: AccountStore,
    buffer: Mutex<ReplayBuffer>,
    /// The number of the next payload to be written.
    head: watch::Sender<u64>,
    /// The number of the next payload of the fastest reader.
    furthest: AtomicU64,
    taken: Notify,
}

/// Executes the subscription's document to write payloads.
pub(super) struct Renderer {
    pub(super) schema: Schema,
    pub(super) template: Template,
    /// The first subscriber. All subscribers of the group have the same access.
    pub(super) execution: ExecutionContext,
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timeout: Duration,
    pub(super) metrics: LiveMetrics,
}

/// The handle of the writing task.
struct PollTask(AbortHandle);

impl Drop for PollTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl SharedSubscription {
    pub(super) fn new(plan: SubscriptionPlan, renderer: Renderer) -> Arc<Self> {
        let group_count = renderer.metrics.track_group();
        let shared = SubscriptionState {
            store: renderer.store.for_viewer(&renderer.execution.viewer),
            plan,
            renderer,
            buffer: Mutex::new(ReplayBuffer::new(Position::at(0))),
            head: watch::Sender::new(0),
            furthest: AtomicU64::new(0),
            taken: Notify::new(),
        };
        Arc::new(Self { shared: Arc::new(shared), tail: OnceCell::new(), _group_count: group_count })
    }

    pub(super) fn shared(&self) -> &SubscriptionState {
        &self.shared
    }

    /// Subscribes to the bus and starts the task, unless it runs already.
    pub(super) async fn start(&self) -> Result<(), StoreError> {
        let start = async || {
            // The subscription to the bus comes first, so that no change falls between it and the
            // position.
            let (bus, account) = (self.shared.renderer.store.bus(), self.shared.store.account_id());
            let watch = bus.subscribe(account, self.shared.plan.selection.changes());
            let position = self.shared.start_position().await?;
            self.shared.buffer().record_position(position.clone());
            let task = tokio::spawn(poll_changes(Arc::clone(&self.shared), watch, position));
            Ok(PollTask(task.abort_handle()))
        };
        self.tail.get_or_try_init(start).await.map(|_| ())
    }
}

/// Reads changes and writes their payloads in rounds, whenever something changed.
async fn poll_changes(shared: Arc<SubscriptionState>, mut watch: BusSubscription, mut position: Position) {
    let (mut removals, mut has_gap) = (ReportedRemovals::default(), false);
    let interval = Duration::from_millis(shared.plan.read_interval_ms);
    let mut pacing = RoundPacing::new(interval, Instant::now());
    let mut previous_number = 0;
    loop {
        let mut changes = watch.next_changes().await;
        pacing.wait_for_round().await;
        shared.wait_for_capacity().await;
        // The state of the bus is read before its notices: a reconnect publishes the gap before it
        // counts as connected.
        let is_connected = shared.renderer.store.bus().is_connected();
        if let Some(more_changes) = watch.next_changes().now_or_never() {
            changes = merge_changes(changes, more_changes);
        }
        let (started_at, first_number) = (Instant::now(), *shared.head.borrow());
        let metrics = &shared.renderer.metrics;
        let settled_until = shared.renderer.clock.timestamp().timestamp_millis();
        while let Err(error) = shared.run_round(&changes, &mut position, &mut removals, &mut has_gap).await {
            metrics.count_round_failure();
            tracing::warn!(error = %Chain(&error), "failed to read changes; retrying");
            changes.gap = true;
            sleep(RETRY_DELAY).await;
        }
        metrics.record_round(started_at.elapsed());
        if is_connected {
            position.raise_floor(settled_until);
        }
        shared.buffer().record_position(position.clone());
        // Only readers that had reached the round before count, so a reader that takes nothing is ignored
        // after one round.
        pacing.wait_for_readers(|| shared.buffer().is_taken_by_half(previous_number)).await;
        previous_number = first_number;
        pacing.schedule_next(started_at, Instant::now());
        shared.buffer().drop_taken_payloads();
    }
}

fn merge_changes(first: Changes, second: Changes) -> Changes {
    let mut clusters: BTreeMap<ClusterId, _> = BTreeMap::new();
    for notice in first.clusters.into_iter().chain(second.clusters) {
        clusters.entry(notice.cluster).and_modify(|merged| *merged = notice.merge(*merged)).or_insert(notice);
    }
    Changes {
        clusters: clusters.into_values().collect(),
        gap: first.gap || second.gap,
        account: first.account | second.account,
    }
}

impl SubscriptionState {
    pub(super) fn buffer(&self) -> MutexGuard<'_, ReplayBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn store(&self) -> &AccountStore {
        &self.store
    }

    pub(super) fn plan(&self) -> &SubscriptionPlan {
        &self.plan
    }

    /// Returns a receiver of the number of the next payload to be written.
    pub(super) fn head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// Returns the metrics of all groups.
    pub(super) fn metrics(&self) -> &LiveMetrics {
        &self.renderer.metrics
    }

    /// Records the number of a reader's next payload.
    pub(super) fn advance_furthest(&self, next: u64) {
        if self.furthest.fetch_max(next, Ordering::Relaxed) < next {
            self.taken.notify_one();
        }
    }

    /// Returns true if the stream delivers added and changed rows rather than the state of clusters.
    pub(super) fn is_append_only(&self) -> bool {
        !matches!(self.plan.selection.stream(), Stream::Clusters | Stream::Snapshots)
    }

    /// Returns the position at which a new subscription starts.
    async fn start_position(&self) -> Result<Position, StoreError> {
        let now = self.renderer.clock.timestamp();
        if !self.is_append_only() {
            return Ok(Position::at(now.timestamp_millis() - SETTLED_AFTER_MS));
        }
        match self.plan.selection.account_table() {
            Some(table) => self.store.start_row_position(now, table, MAX_CHANGED as u64).await,
            None => self.store.start_position(now, self.plan.clusters.as_deref(), MAX_CHANGED as u64).await,
        }
    }

    /// Returns the clusters that changed after an arrival number.
    async fn changed_since(&self, after: i64) -> Result<Vec<ChangedCluster>, StoreError> {
        let clusters = self.plan.clusters.as_deref();
        self.store.changed_clusters(after, clusters, MAX_CHANGED as u64 + 1).await
    }

    /// Returns these clusters with the arrival numbers of their last changes.
    async fn changed_among(&self, clusters: &[ClusterId]) -> Result<Vec<ChangedCluster>, StoreError> {
        if clusters.is_empty() {
            return Ok(Vec::new());
        }
        self.store.changed_clusters(i64::MIN, Some(clusters), clusters.len() as u64).await
    }

    /// Waits until the group has read as far as a position from another server. The notices of that
    /// server may not have arrived here yet, and a reader that joined now would receive the same rows
    /// again. The wait ends after a second.
    pub(super) async fn catch_up_to(&self, after: &Position) {
        let is_behind = || after.is_ahead_of(self.buffer().complete_position());
        if !self.is_append_only() || !is_behind() {
            return;
        }
        // The cursor comes from a client. The group reads what the database holds, whatever the cursor
        // claims.
        self.renderer.store.bus().force_resync(self.store.account_id());
        poll_until(|| !is_behind(), RETRY_DELAY).await;
    }

    /// Returns the catch-up of a reader at `position` that continues with the payloads after `until`, and
    /// true if there are more changes than the limit.
    pub(super) async fn catch_up_from(
        &self,
        position: &Position,
        until: Option<&Position>,
    ) -> Result<(CatchUp, bool), StoreError> {
        if let Some(table) = self.plan.selection.account_table() {
            let (rows, exceeds_limit) = self.rows_since(table, position, until).await?;
            return Ok((CatchUp::of_rows(rows, position.clone()), exceeds_limit));
        }
        let (arrivals, exceeds_limit) = self.arrivals_since(position, until).await?;
        Ok((CatchUp::new(arrivals, position.clone()), exceeds_limit))
    }

    /// Returns the rows of the account whose last changes are after `position` and up to `until`, and true if
    /// there are more than the limit. A row that changed after `until` is left out: the payloads after it
    /// contain the row's current state.
    async fn rows_since(
        &self,
        table: AccountTable,
        position: &Position,
        until: Option<&Position>,
    ) -> Result<(Vec<ChangedRow>, bool), StoreError> {
        let mut rows = self.store.changed_rows(table, position.floor(), MAX_CHANGED as u64 + 1).await?;
        let exceeds_limit = rows.len() > MAX_CHANGED;
        rows.retain(|row| {
            let is_later = until.is_some_and(|until| row.changed_at > until.arrival_of(row.id));
            row.changed_at > position.arrival_of(row.id) && !is_later
        });
        Ok((rows, exceeds_limit))
    }

    /// Returns the arrivals after `position` and up to `until`, and true if there are more than the
    /// limit of clusters.
    async fn arrivals_since(
        &self,
        position: &Position,
        until: Option<&Position>,
    ) -> Result<(Vec<PendingChanges>, bool), StoreError> {
        let changed = self.changed_since(position.floor()).await?;
        let exceeds_limit = changed.len() > MAX_CHANGED;
        let missed = changed.into_iter().filter_map(|changed| {
            let ChangedCluster { id: cluster, changed_at, .. } = changed;
            let last =
                until.filter(|_| self.is_append_only()).map_or(changed_at, |until| until.arrival_of(cluster));
            let (after, until) = (position.arrival_of(cluster), last.min(changed_at));
            let part = position.part().filter(|part| part.cluster == cluster);
            let since = changed.since(after);
            (after < until).then_some(PendingChanges { cluster, after, until, since, part })
        });
        Ok((missed.collect(), exceeds_limit))
    }

    /// Waits while the group is too far ahead of its fastest reader.
    async fn wait_for_capacity(&self) {
        while *self.head.borrow() > self.furthest.load(Ordering::Relaxed) + MAX_UNREAD_PAYLOADS {
            self.taken.notified().await;
        }
    }

    /// Returns the catch-up of a group at `position` after these notices, and true if there are more changes
    /// than the limit.
    async fn catch_up_with(
        &self,
        changes: &Changes,
        position: &Position,
    ) -> Result<(CatchUp, bool), StoreError> {
        if self.plan.selection.account_table().is_some() {
            // A notice of the account names no row.
            return self.catch_up_from(position, None).await;
        }
        let (mut arrivals, mut exceeds_limit) = (BTreeMap::new(), false);
        // The clusters with more arrivals than the notice describes.
        let mut missed = Vec::new();
        for notice in &changes.clusters {
            let cluster = notice.cluster;
            let read = if position.has_own_arrival(cluster) {
                position.arrival_of(cluster)
            } else {
                // A change with an earlier arrival number may be committed later than the others.
                // Neither it nor what arrived after it has been read.
                position.arrival_of(cluster).min(notice.previous_arrival)
            };
            let is_selected = self.plan.clusters.as_ref().is_none_or(|clusters| clusters.contains(&cluster));
            if is_selected && (read < notice.arrival || !self.is_append_only()) {
                let part = position.part().filter(|part| part.cluster == cluster);
                let (after, until) = (read, notice.arrival);
                if notice.oldest_item_ms.is_some() && read < notice.previous_arrival && self.is_append_only()
                {
                    missed.push(cluster);
                }
                arrivals.insert(
                    cluster,
                    PendingChanges { cluster, after, until, since: notice.oldest_item_ms, part },
                );
            }
        }
        for cluster in self.changed_among(&missed).await? {
            if let Some(arrivals) = arrivals.get_mut(&cluster.id) {
                arrivals.since = cluster.since(arrivals.after);
            }
        }
        if changes.gap {
            let (missed, is_truncated) = self.arrivals_since(position, None).await?;
            exceeds_limit = is_truncated;
            arrivals.extend(missed.into_iter().map(|missed| (missed.cluster, missed)));
        }
        Ok((CatchUp::new(arrivals.into_values(), position.clone()), exceeds_limit))
    }

    /// Reads the changes of the notices and writes their payloads.
    async fn run_round(
        &self,
        changes: &Changes,
        position: &mut Position,
        removals: &mut ReportedRemovals,
        has_gap: &mut bool,
    ) -> Result<(), StoreError> {
        let (mut catch_up, exceeds_limit) = self.catch_up_with(changes, position).await?;
        *has_gap |= exceeds_limit;
        while let Some(batches) = catch_up.next(&self.plan.selection, &self.store).await? {
            for mut batch in batches {
                if !removals.retain_new(&mut batch.rows) {
                    continue;
                }
                self.wait_for_capacity().await;
                *position = batch.position.clone();
                let (cluster, batch_position) = (batch.cluster, batch.position.clone());
                let payload = self.write(batch, mem::take(has_gap)).await;
                let mut buffer = self.buffer();
                buffer.push(payload, cluster, batch_position);
                let next = buffer.head();
                drop(buffer);
                self.head.send_replace(next);
            }
            *position = catch_up.position().clone();
        }
        Ok(())
    }

    /// Writes the payload of a batch, marked with a gap if `gap`.
    pub(super) async fn write(&self, batch: Batch, gap: bool) -> Bytes {
        let cursor = batch.position.cursor(self.plan.selection.stream());
        let payload = self.renderer.write(PayloadContent { cursor, rows: batch.rows }).await;
        self.metrics().count_written();
        if gap { self.mark_gap(&payload) } else { payload.into() }
    }

    /// Marks a written payload with a gap: something before it may be missing.
    pub(super) fn mark_gap(&self, payload: &[u8]) -> Bytes {
        self.metrics().count_gap();
        mark_gap(payload).into()
    }
}

impl Renderer {
    async fn write(&self, content: PayloadContent) -> Vec<u8> {
        let request = self.template.clone().into_request();
        let execution = ExecutionContext { now: self.clock.now(), ..self.execution.clone() };
        let write = self.schema.write_payload(request, content, execution, &self.store);
        let mut response = match timeout(self.timeout, AssertUnwindSafe(write).catch_unwind()).await {
            Ok(Ok(response)) => response,
            Ok(Err(panic)) => Response::from_errors(vec![log_defect(panic_message(panic.as_ref()))]),
            Err(_) => {
                let mut error = ServerError::new("the payload took too long to be read", None);
                error.extensions.get_or_insert_default().set("code", "TIMEOUT");
                Response::from_errors(vec![error])
            }
        };
        finalize_response(&mut response);
        serialize_response(&response)
    }
}
