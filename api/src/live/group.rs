//! Subscriptions that ask for the same: read once, written once.

use std::{
    collections::{BTreeMap, HashSet},
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
    time::{Instant, sleep, sleep_until, timeout},
};
use uuid::Uuid;

use super::{
    errand::{Errand, Piece},
    ring::Ring,
};
use crate::{
    bus::{Heard, Watch},
    clock::Clock,
    domain::position::{Position, SETTLED_AFTER_MS, Stream},
    error::Chain,
    graphql::{Caller, Delivery, Planned, Rows, Schema, finish, with_gap, written},
    guard::Template,
    metrics::{Counted, LiveMetrics},
    store::{AccountStore, Arrivals, ChangedCluster, Store, StoreError},
};

/// Clusters that are looked for where something may have been missed. Of more, it is said that it was.
const MAX_CLUSTERS: usize = 5_000;

/// Payloads that are written before somebody takes one.
const MAX_AHEAD: u64 = 16;

/// Clusters of which it is remembered that readers know they do not pass the filter any more.
const MAX_TOLD: usize = 10_000;

/// Before what failed is tried again.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long readers are waited for, before the next round is thought of.
const MAX_TAKING: Duration = Duration::from_secs(2);

/// Between two looks at how far they are.
const LOOK: Duration = Duration::from_millis(10);

/// Times as long as half of the readers need to take what a round wrote, the next one begins: twice as long as all of them
/// need. A server that has more readers than it can serve that often tells them of more changes at once, and keeps half of its
/// time for whoever reports or asks.
const REST: u32 = 4;

/// Subscriptions that ask for the same. Its task ends when it is dropped.
pub(super) struct Group {
    shared: Arc<Shared>,
    tail: OnceCell<Tail>,
    _counted: Counted,
}

/// What the task and the readers of a group have in common.
pub(super) struct Shared {
    planned: Planned,
    renderer: Renderer,
    store: AccountStore,
    ring: Mutex<Ring>,
    /// The number of the payload that is written next.
    head: watch::Sender<u64>,
    /// The number of the payload that the fastest reader takes next.
    furthest: AtomicU64,
    taken: Notify,
}

/// Makes payloads.
pub(super) struct Renderer {
    pub(super) schema: Schema,
    pub(super) template: Template,
    /// Whoever asked first: the others may see the same.
    pub(super) caller: Caller,
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timeout: Duration,
    pub(super) metrics: LiveMetrics,
}

/// The task that writes.
struct Tail(AbortHandle);

impl Drop for Tail {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Group {
    pub(super) fn new(planned: Planned, renderer: Renderer) -> Arc<Self> {
        let counted = renderer.metrics.group();
        let shared = Shared {
            store: renderer.store.for_viewer(&renderer.caller.viewer),
            planned,
            renderer,
            ring: Mutex::new(Ring::new(Position::at(0))),
            head: watch::Sender::new(0),
            furthest: AtomicU64::new(0),
            taken: Notify::new(),
        };
        Arc::new(Self { shared: Arc::new(shared), tail: OnceCell::new(), _counted: counted })
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Begins to watch, unless that was begun before.
    pub(super) async fn start(&self) -> Result<(), StoreError> {
        let start = async || {
            // First, so that nothing comes between.
            let (bus, account) = (self.shared.renderer.store.bus(), self.shared.store.account_id());
            let watch = bus.watch(account, self.shared.planned.wanted.changes());
            let position = self.shared.now().await?;
            self.shared.ring().settle(position.clone());
            let tail = tokio::spawn(tail(Arc::clone(&self.shared), watch, position));
            Ok(Tail(tail.abort_handle()))
        };
        self.tail.get_or_try_init(start).await.map(|_| ())
    }
}

/// Reads and writes whenever something changed.
async fn tail(shared: Arc<Shared>, mut watch: Watch, mut position: Position) {
    let (mut told, mut lost) = (HashSet::new(), false);
    let pause = Duration::from_millis(shared.planned.pause_ms);
    let mut next_round = Instant::now();
    let mut before = 0;
    loop {
        let mut heard = watch.heard().await;
        sleep_until(next_round).await;
        shared.room().await;
        // Looked at before it is listened: when all are heard again, what may have been missed is told first.
        let whole = shared.renderer.store.bus().is_whole();
        if let Some(more) = watch.heard().now_or_never() {
            heard = both(heard, more);
        }
        let (begun, first) = (Instant::now(), *shared.head.borrow());
        let metrics = &shared.renderer.metrics;
        let settled = shared.renderer.clock.timestamp().timestamp_millis();
        while let Err(error) = shared.round(&heard, &mut position, &mut told, &mut lost).await {
            metrics.round_failed();
            tracing::warn!(error = %Chain(&error), "what changed cannot be read now");
            heard.gap = true;
            sleep(PATIENCE).await;
        }
        metrics.round(begun.elapsed());
        if whole {
            position.settle(settled);
        }
        shared.ring().settle(position.clone());
        shared.taken_by_half(before).await;
        before = first;
        next_round = begun + pause.max(REST * begun.elapsed());
        shared.ring().forget();
    }
}

fn both(first: Heard, second: Heard) -> Heard {
    let mut clusters: BTreeMap<ClusterId, _> = BTreeMap::new();
    for notice in first.clusters.into_iter().chain(second.clusters) {
        clusters.entry(notice.cluster).and_modify(|known| *known = notice.with(*known)).or_insert(notice);
    }
    Heard {
        clusters: clusters.into_values().collect(),
        gap: first.gap || second.gap,
        access: first.access || second.access,
    }
}

impl Shared {
    pub(super) fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn store(&self) -> &AccountStore {
        &self.store
    }

    pub(super) fn planned(&self) -> &Planned {
        &self.planned
    }

    /// Tells the number of the payload that is written next, whenever it is another.
    pub(super) fn head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// What is counted of all groups.
    pub(super) fn metrics(&self) -> &LiveMetrics {
        &self.renderer.metrics
    }

    /// Takes down that a reader takes this payload next.
    pub(super) fn took(&self, next: u64) {
        if self.furthest.fetch_max(next, Ordering::Relaxed) < next {
            self.taken.notify_one();
        }
    }

    /// Whether it is what is added that is asked for, and not what is.
    pub(super) fn appends(&self) -> bool {
        !matches!(self.planned.wanted.stream(), Stream::Clusters | Stream::Snapshots)
    }

    /// Where whoever begins now begins.
    async fn now(&self) -> Result<Position, StoreError> {
        let now = self.renderer.clock.timestamp();
        if !self.appends() {
            return Ok(Position::at(now.timestamp_millis() - SETTLED_AFTER_MS));
        }
        self.store.position_at(now, self.planned.clusters.as_deref(), MAX_CLUSTERS as u64).await
    }

    /// Clusters that changed after a place.
    async fn changed_since(&self, after: i64) -> Result<Vec<ChangedCluster>, StoreError> {
        let among = self.planned.clusters.as_deref();
        self.store.changed_clusters(after, among, MAX_CLUSTERS as u64 + 1).await
    }

    /// These clusters, with the places of their last changes.
    async fn changed_among(&self, clusters: &[ClusterId]) -> Result<Vec<ChangedCluster>, StoreError> {
        if clusters.is_empty() {
            return Ok(Vec::new());
        }
        self.store.changed_clusters(i64::MIN, Some(clusters), clusters.len() as u64).await
    }

    /// Has the group read as far as somebody has read at another server: what that server told may not have come here yet, and
    /// whoever joined now would be sent it again.
    pub(super) async fn reach(&self, after: &Position) {
        let is_behind = || after.is_ahead_of(self.ring().whole());
        if !self.appends() || !is_behind() {
            return;
        }
        // What is there is read, whatever the cursor says: it comes from a client.
        self.renderer.store.bus().look_again(self.store.account_id());
        let reached = async {
            while is_behind() {
                sleep(LOOK).await;
            }
        };
        let _ = timeout(PATIENCE, reached).await;
    }

    /// What somebody has not read who has read as far as `position`, and whether that is not all, because it would be too
    /// much. What lies behind `until` is not among it.
    pub(super) async fn missed(
        &self,
        position: &Position,
        until: Option<&Position>,
    ) -> Result<(Vec<Arrivals>, bool), StoreError> {
        let changed = self.changed_since(position.floor()).await?;
        let too_many = changed.len() > MAX_CLUSTERS;
        let missed = changed.into_iter().filter_map(|changed| {
            let ChangedCluster { id: cluster, changed_at, .. } = changed;
            let last = until.filter(|_| self.appends()).map_or(changed_at, |until| until.of(cluster));
            let (after, until) = (position.of(cluster), last.min(changed_at));
            let part = position.part().filter(|part| part.cluster == cluster);
            let since = changed.since(after);
            (after < until).then_some(Arrivals { cluster, after, until, since, part })
        });
        Ok((missed.collect(), too_many))
    }

    /// Waits until somebody has taken what was written.
    async fn room(&self) {
        while *self.head.borrow() > self.furthest.load(Ordering::Relaxed) + MAX_AHEAD {
            self.taken.notified().await;
        }
    }

    /// Waits until half of the readers have taken all that was written, of those who are not behind `since`. Who takes
    /// nothing at all is none of those after one round.
    async fn taken_by_half(&self, since: u64) {
        let taken = async {
            while !self.ring().is_taken_by_half(since) {
                sleep(LOOK).await;
            }
        };
        // However slow they are, they are told of what is newer.
        let _ = timeout(MAX_TAKING, taken).await;
    }

    /// Reads and writes what was heard of.
    async fn round(
        &self,
        heard: &Heard,
        position: &mut Position,
        told: &mut HashSet<ClusterId>,
        lost: &mut bool,
    ) -> Result<(), StoreError> {
        let mut arrivals = BTreeMap::new();
        // Of which more arrived than the notice tells of.
        let mut missed = Vec::new();
        for notice in &heard.clusters {
            let cluster = notice.cluster;
            let read = if position.names(cluster) {
                position.of(cluster)
            } else {
                // What was committed later than all others of its time has not been read, nor has what came after it.
                position.of(cluster).min(notice.after)
            };
            let named = self.planned.clusters.as_ref().is_none_or(|named| named.contains(&cluster));
            if named && (read < notice.arrival || !self.appends()) {
                let part = position.part().filter(|part| part.cluster == cluster);
                let (after, until) = (read, notice.arrival);
                if notice.since.is_some() && read < notice.after && self.appends() {
                    missed.push(cluster);
                }
                arrivals.insert(cluster, Arrivals { cluster, after, until, since: notice.since, part });
            }
        }
        for cluster in self.changed_among(&missed).await? {
            if let Some(arrivals) = arrivals.get_mut(&cluster.id) {
                arrivals.since = cluster.since(arrivals.after);
            }
        }
        if heard.gap {
            let (missed, too_many) = self.missed(position, None).await?;
            *lost |= too_many;
            arrivals.extend(missed.into_iter().map(|missed| (missed.cluster, missed)));
        }
        let mut errand = Errand::new(arrivals.into_values(), position.clone());
        while let Some(pieces) = errand.next(&self.planned.wanted, &self.store).await? {
            for piece in pieces {
                if let Rows::Cluster(row, passes) = &piece.rows {
                    if *passes {
                        told.remove(&row.id);
                    } else if !told.insert(row.id) {
                        continue;
                    }
                    if told.len() > MAX_TOLD {
                        told.clear();
                    }
                }
                self.room().await;
                *position = piece.position.clone();
                let (cluster, place) = (piece.cluster, piece.position.clone());
                let payload = self.write(piece, mem::take(lost)).await;
                let mut ring = self.ring();
                ring.push(payload, cluster, place);
                let next = ring.head();
                drop(ring);
                self.head.send_replace(next);
            }
            *position = errand.position().clone();
        }
        Ok(())
    }

    /// The payload of a piece, behind a gap or not.
    pub(super) async fn write(&self, piece: Piece, gap: bool) -> Bytes {
        let cursor = piece.position.cursor(self.planned.wanted.stream());
        let payload = self.renderer.write(Delivery { cursor, rows: piece.rows }).await;
        self.metrics().written();
        if gap { self.behind_a_gap(&payload) } else { payload.into() }
    }

    /// The payload, which tells that something in front of it may be missing.
    pub(super) fn behind_a_gap(&self, payload: &[u8]) -> Bytes {
        self.metrics().gap();
        with_gap(payload).into()
    }
}

impl Renderer {
    async fn write(&self, delivery: Delivery) -> Vec<u8> {
        let request = self.template.clone().into_request();
        let caller = Caller { now: self.clock.now(), ..self.caller.clone() };
        let deliver = self.schema.deliver(request, delivery, caller, &self.store);
        let mut response = match timeout(self.timeout, AssertUnwindSafe(deliver).catch_unwind()).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => {
                let reference = Uuid::now_v7();
                tracing::error!(%reference, "a payload of a subscription has a defect");
                let mut error = ServerError::new("internal error", None);
                let extensions = error.extensions.get_or_insert_default();
                extensions.set("code", "INTERNAL_SERVER_ERROR");
                extensions.set("reference", reference.to_string());
                Response::from_errors(vec![error])
            }
            Err(_) => {
                let mut error = ServerError::new("the payload took too long to be read", None);
                error.extensions.get_or_insert_default().set("code", "TIMEOUT");
                Response::from_errors(vec![error])
            }
        };
        finish(&mut response);
        written(&response)
    }
}
