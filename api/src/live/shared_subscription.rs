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
    _counted: GaugeGuard,
}

/// The state shared by the task and the readers of a group.
pub(super) struct SubscriptionState {
    planned: SubscriptionPlan,
    renderer: Renderer,
    store: AccountStore,
    ring: Mutex<ReplayBuffer>,
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
    pub(super) fn new(planned: SubscriptionPlan, renderer: Renderer) -> Arc<Self> {
        let counted = renderer.metrics.group();
        let shared = SubscriptionState {
            store: renderer.store.for_viewer(&renderer.execution.viewer),
            planned,
            renderer,
            ring: Mutex::new(ReplayBuffer::new(Position::at(0))),
            head: watch::Sender::new(0),
            furthest: AtomicU64::new(0),
            taken: Notify::new(),
        };
        Arc::new(Self { shared: Arc::new(shared), tail: OnceCell::new(), _counted: counted })
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
            let watch = bus.watch(account, self.shared.planned.selection.changes());
            let position = self.shared.start_position().await?;
            self.shared.ring().record_position(position.clone());
            let tail = tokio::spawn(poll_changes(Arc::clone(&self.shared), watch, position));
            Ok(PollTask(tail.abort_handle()))
        };
        self.tail.get_or_try_init(start).await.map(|_| ())
    }
}

/// Reads and writes in rounds, whenever something changed.
async fn poll_changes(shared: Arc<SubscriptionState>, mut watch: BusSubscription, mut position: Position) {
    let (mut removals, mut lost) = (ReportedRemovals::default(), false);
    let interval = Duration::from_millis(shared.planned.read_interval_ms);
    let mut pacing = RoundPacing::new(interval, Instant::now());
    let mut before = 0;
    loop {
        let mut changes = watch.next_changes().await;
        pacing.wait_for_round().await;
        shared.wait_for_capacity().await;
        // The state of the bus is read before its notices: a reconnect publishes the gap before it
        // counts as whole.
        let whole = shared.renderer.store.bus().is_connected();
        if let Some(more) = watch.next_changes().now_or_never() {
            changes = merge_changes(changes, more);
        }
        let (begun, first) = (Instant::now(), *shared.head.borrow());
        let metrics = &shared.renderer.metrics;
        let settled = shared.renderer.clock.timestamp().timestamp_millis();
        while let Err(error) = shared.run_round(&changes, &mut position, &mut removals, &mut lost).await {
            metrics.round_failed();
            tracing::warn!(error = %Chain(&error), "failed to read changes; retrying");
            changes.gap = true;
            sleep(RETRY_DELAY).await;
        }
        metrics.round(begun.elapsed());
        if whole {
            position.raise_floor(settled);
        }
        shared.ring().record_position(position.clone());
        // Only readers that had reached the round before count, so a reader that takes nothing is ignored
        // after one round.
        pacing.wait_for_readers(|| shared.ring().is_taken_by_half(before)).await;
        before = first;
        pacing.schedule_next(begun, Instant::now());
        shared.ring().drop_taken();
    }
}

fn merge_changes(first: Changes, second: Changes) -> Changes {
    let mut clusters: BTreeMap<ClusterId, _> = BTreeMap::new();
    for notice in first.clusters.into_iter().chain(second.clusters) {
        clusters.entry(notice.cluster).and_modify(|known| *known = notice.merge(*known)).or_insert(notice);
    }
    Changes {
        clusters: clusters.into_values().collect(),
        gap: first.gap || second.gap,
        account: first.account | second.account,
    }
}

impl SubscriptionState {
    pub(super) fn ring(&self) -> MutexGuard<'_, ReplayBuffer> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn store(&self) -> &AccountStore {
        &self.store
    }

    pub(super) fn planned(&self) -> &SubscriptionPlan {
        &self.planned
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
        !matches!(self.planned.selection.stream(), Stream::Clusters | Stream::Snapshots)
    }

    /// Returns the position at which a new subscription starts.
    async fn start_position(&self) -> Result<Position, StoreError> {
        let now = self.renderer.clock.timestamp();
        if !self.is_append_only() {
            return Ok(Position::at(now.timestamp_millis() - SETTLED_AFTER_MS));
        }
        match self.planned.selection.account_table() {
            Some(table) => self.store.start_row_position(now, table, MAX_CHANGED as u64).await,
            None => {
                self.store.start_position(now, self.planned.clusters.as_deref(), MAX_CHANGED as u64).await
            }
        }
    }

    /// Returns the clusters that changed after an arrival number.
    async fn changed_since(&self, after: i64) -> Result<Vec<ChangedCluster>, StoreError> {
        let among = self.planned.clusters.as_deref();
        self.store.changed_clusters(after, among, MAX_CHANGED as u64 + 1).await
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
        let is_behind = || after.is_ahead_of(self.ring().complete_position());
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
        if let Some(table) = self.planned.selection.account_table() {
            let (rows, too_many) = self.rows_since(table, position, until).await?;
            return Ok((CatchUp::of_rows(rows, position.clone()), too_many));
        }
        let (arrivals, too_many) = self.arrivals_since(position, until).await?;
        Ok((CatchUp::new(arrivals, position.clone()), too_many))
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
        let too_many = rows.len() > MAX_CHANGED;
        rows.retain(|row| {
            let is_later = until.is_some_and(|until| row.changed_at > until.arrival_of(row.id));
            row.changed_at > position.arrival_of(row.id) && !is_later
        });
        Ok((rows, too_many))
    }

    /// Returns the arrivals after `position` and up to `until`, and true if there are more than the
    /// limit of clusters.
    async fn arrivals_since(
        &self,
        position: &Position,
        until: Option<&Position>,
    ) -> Result<(Vec<PendingChanges>, bool), StoreError> {
        let changed = self.changed_since(position.floor()).await?;
        let too_many = changed.len() > MAX_CHANGED;
        let missed = changed.into_iter().filter_map(|changed| {
            let ChangedCluster { id: cluster, changed_at, .. } = changed;
            let last =
                until.filter(|_| self.is_append_only()).map_or(changed_at, |until| until.arrival_of(cluster));
            let (after, until) = (position.arrival_of(cluster), last.min(changed_at));
            let part = position.part().filter(|part| part.cluster == cluster);
            let since = changed.since(after);
            (after < until).then_some(PendingChanges { cluster, after, until, since, part })
        });
        Ok((missed.collect(), too_many))
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
        if self.planned.selection.account_table().is_some() {
            // A notice of the account names no row.
            return self.catch_up_from(position, None).await;
        }
        let (mut arrivals, mut too_many) = (BTreeMap::new(), false);
        // The clusters with more arrivals than the notice describes.
        let mut missed = Vec::new();
        for notice in &changes.clusters {
            let cluster = notice.cluster;
            let read = if position.has_own_arrival(cluster) {
                position.arrival_of(cluster)
            } else {
                // A change with an earlier arrival number may be committed later than the others.
                // Neither it nor what arrived after it has been read.
                position.arrival_of(cluster).min(notice.after)
            };
            let named = self.planned.clusters.as_ref().is_none_or(|named| named.contains(&cluster));
            if named && (read < notice.arrival || !self.is_append_only()) {
                let part = position.part().filter(|part| part.cluster == cluster);
                let (after, until) = (read, notice.arrival);
                if notice.since.is_some() && read < notice.after && self.is_append_only() {
                    missed.push(cluster);
                }
                arrivals.insert(cluster, PendingChanges { cluster, after, until, since: notice.since, part });
            }
        }
        for cluster in self.changed_among(&missed).await? {
            if let Some(arrivals) = arrivals.get_mut(&cluster.id) {
                arrivals.since = cluster.since(arrivals.after);
            }
        }
        if changes.gap {
            let (missed, more) = self.arrivals_since(position, None).await?;
            too_many = more;
            arrivals.extend(missed.into_iter().map(|missed| (missed.cluster, missed)));
        }
        Ok((CatchUp::new(arrivals.into_values(), position.clone()), too_many))
    }

    /// Reads the changes of the notices and writes their payloads.
    async fn run_round(
        &self,
        changes: &Changes,
        position: &mut Position,
        removals: &mut ReportedRemovals,
        lost: &mut bool,
    ) -> Result<(), StoreError> {
        let (mut catch_up, too_many) = self.catch_up_with(changes, position).await?;
        *lost |= too_many;
        while let Some(pieces) = catch_up.next(&self.planned.selection, &self.store).await? {
            for mut piece in pieces {
                if !removals.retain_new(&mut piece.rows) {
                    continue;
                }
                self.wait_for_capacity().await;
                *position = piece.position.clone();
                let (cluster, place) = (piece.cluster, piece.position.clone());
                let payload = self.write(piece, mem::take(lost)).await;
                let mut ring = self.ring();
                ring.push(payload, cluster, place);
                let next = ring.head();
                drop(ring);
                self.head.send_replace(next);
            }
            *position = catch_up.position().clone();
        }
        Ok(())
    }

    /// Writes the payload of a batch, marked with a gap if `gap`.
    pub(super) async fn write(&self, piece: Batch, gap: bool) -> Bytes {
        let cursor = piece.position.cursor(self.planned.selection.stream());
        let payload = self.renderer.write(PayloadContent { cursor, rows: piece.rows }).await;
        self.metrics().written();
        if gap { self.mark_gap(&payload) } else { payload.into() }
    }

    /// Marks a written payload with a gap: something before it may be missing.
    pub(super) fn mark_gap(&self, payload: &[u8]) -> Bytes {
        self.metrics().gap();
        mark_gap(payload).into()
    }
}

impl Renderer {
    async fn write(&self, delivery: PayloadContent) -> Vec<u8> {
        let request = self.template.clone().into_request();
        let execution = ExecutionContext { now: self.clock.now(), ..self.execution.clone() };
        let deliver = self.schema.write_payload(request, delivery, execution, &self.store);
        let mut response = match timeout(self.timeout, AssertUnwindSafe(deliver).catch_unwind()).await {
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
