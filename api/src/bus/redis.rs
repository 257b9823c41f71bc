//! The bus of several servers of one store, over Redis.
//!
//! Each account with a subscriber has a channel. Each server announces on the presence channel which
//! accounts it watches, so that no server publishes changes of an account that no other server watches.
//! It repeats the announcement and receives its own: without it, the connection is presumed dead and
//! replaced. Notices published in the meantime are lost. Therefore each new connection of any server reports
//! a gap to all subscribers, which then read the database. Neither a commit nor a query ever waits for Redis.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use entity::ids::{AccountId, ClusterId};
use futures::{StreamExt, future::BoxFuture};
use redis::{Client, RedisError, aio::MultiplexedConnection};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::Notify,
    task::AbortHandle,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use uuid::Uuid;

use super::{
    Bus, BusSubscription, ChangeKinds, InProcess, Notice,
    redis_url::{OPERATION_TIMEOUT, RedisUrl, timed_out},
};
use crate::metrics::BusMetrics;

/// The channel on which servers announce the accounts that they watch.
const PRESENCE_CHANNEL: &str = "galvo:1:watching";

/// The interval between two publications, during which notices are collected.
const BATCH_INTERVAL: Duration = Duration::from_millis(50);

/// The interval between two announcements of the watched accounts.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(3);

/// The time without a message after which another server is presumed stopped, or the connection of this one
/// dead.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay before a reconnect.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// The time after the start of a subscription during which changes may be missed, because the other
/// servers do not know yet that this one watches the account.
const ANNOUNCE_LAG: Duration = Duration::from_millis(500);

/// The limit of clusters with pending notices. Beyond it, a gap is published.
const MAX_PENDING_CLUSTERS: usize = 20_000;

/// The number of accounts in one message.
const MAX_ACCOUNTS_PER_MESSAGE: usize = 1_000;

/// The bus of several processes.
#[derive(Debug)]
pub struct Redis {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    local: InProcess,
    /// The identifier of this server in messages.
    server_id: Uuid,
    /// True while a connection exists.
    is_connected: AtomicBool,
    /// The accounts that other servers watch.
    watched_elsewhere: RwLock<HashSet<AccountId>>,
    /// True while there may be servers that have not announced yet which accounts they watch.
    has_unknown_peers: AtomicBool,
    pending: Mutex<PendingNotices>,
    pending_added: Notify,
    metrics: BusMetrics,
    /// True if this server is stopping.
    is_closing: AtomicBool,
    /// Notified after the last publication before the server stops.
    final_publication: Notify,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({})", self.server_id)
    }
}

/// The notices that are not published yet.
#[derive(Default)]
struct PendingNotices {
    clusters: BTreeMap<(AccountId, ClusterId), Notice>,
    accounts: HashMap<AccountId, ChangeKinds>,
    gaps: HashSet<AccountId>,
}

/// The changes of an account, as one message.
#[derive(Debug, Default, Serialize, Deserialize)]
struct AccountMessage {
    from: Uuid,
    /// The cluster's id, the kinds of changes, the arrival number, and the time of the oldest added row.
    #[serde(default)]
    clusters: Vec<(i64, u16, i64, Option<i64>)>,
    /// The arrival numbers of the preceding changes, in the same order. Other releases may neither send
    /// nor read them.
    #[serde(default, rename = "after")]
    previous_arrivals: Vec<i64>,
    /// The kinds of changes to the account itself. Other releases may send and read only `access`.
    #[serde(default)]
    account: u16,
    #[serde(default)]
    access: bool,
    #[serde(default)]
    gap: bool,
}

/// The announcement of the accounts that a server watches.
#[derive(Debug, Serialize, Deserialize)]
struct Presence {
    from: Uuid,
    accounts: Vec<AccountId>,
    /// True if these accounts add to those of the preceding message.
    #[serde(rename = "more")]
    is_continuation: bool,
    /// True if the server requests the announcements of the others.
    #[serde(rename = "asks")]
    requests_reply: bool,
}

impl Redis {
    /// Starts connecting in the background, and does not wait for Redis.
    #[must_use]
    pub(crate) fn start(url: &RedisUrl, metrics: BusMetrics) -> Self {
        let shared = Arc::new(Shared {
            local: InProcess::default(),
            server_id: Uuid::new_v4(),
            is_connected: AtomicBool::new(false),
            watched_elsewhere: RwLock::default(),
            has_unknown_peers: AtomicBool::new(false),
            pending: Mutex::default(),
            pending_added: Notify::new(),
            metrics,
            is_closing: AtomicBool::new(false),
            final_publication: Notify::new(),
        });
        let task = tokio::spawn(run_with_reconnects(Arc::clone(&shared), url.0.clone()));
        Self { shared, task: task.abort_handle() }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Bus for Redis {
    fn publish(&self, account: AccountId, notice: Notice) {
        self.shared.local.publish(account, notice);
        self.shared.enqueue(account, |pending| {
            let key = (account, notice.cluster);
            if let Some(pending_notice) = pending.clusters.get_mut(&key) {
                *pending_notice = pending_notice.merge(notice);
            } else if pending.clusters.len() < MAX_PENDING_CLUSTERS {
                pending.clusters.insert(key, notice);
            } else {
                pending.gaps.insert(account);
                self.shared.metrics.count_dropped(1);
            }
        });
    }

    fn publish_account(&self, account: AccountId, changed: ChangeKinds) {
        self.shared.local.publish_account(account, changed);
        self.shared.enqueue(account, |pending| {
            let pending_kinds = pending.accounts.entry(account).or_default();
            *pending_kinds = *pending_kinds | changed;
        });
    }

    fn subscribe(&self, account: AccountId, kinds: ChangeKinds) -> BusSubscription {
        self.shared.local.subscribe(account, kinds)
    }

    fn force_resync(&self, account: AccountId) {
        self.shared.local.publish_gap(account);
    }

    fn is_connected(&self) -> bool {
        self.shared.is_connected.load(Ordering::Acquire)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.is_connected() {
                self.shared.is_closing.store(true, Ordering::Release);
                self.shared.pending_added.notify_one();
                let _ = timeout(OPERATION_TIMEOUT, self.shared.final_publication.notified()).await;
            }
        })
    }
}

impl Shared {
    /// Queues a notice for publication if another server watches the account or may watch it.
    fn enqueue(&self, account: AccountId, add: impl FnOnce(&mut PendingNotices)) {
        let is_watched =
            || self.watched_elsewhere.read().unwrap_or_else(PoisonError::into_inner).contains(&account);
        if !self.has_unknown_peers.load(Ordering::Acquire) && !is_watched() {
            return;
        }
        add(&mut self.lock_pending());
        self.pending_added.notify_one();
    }

    fn lock_pending(&self) -> MutexGuard<'_, PendingNotices> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the queued notices, and returns one message per account with its channel.
    fn take_messages(&self) -> Vec<(String, String)> {
        let pending = mem::take(&mut *self.lock_pending());
        let mut messages: BTreeMap<AccountId, AccountMessage> = BTreeMap::new();
        for ((account, cluster), notice) in pending.clusters {
            let Notice { changed, arrival, previous_arrival, oldest_item_ms, .. } = notice;
            let message = messages.entry(account).or_default();
            message.clusters.push((cluster.0, changed.bits(), arrival, oldest_item_ms));
            message.previous_arrivals.push(previous_arrival);
        }
        for (account, changed) in pending.accounts {
            let message = messages.entry(account).or_default();
            (message.account, message.access) = (changed.bits(), changed.intersects(ChangeKinds::ACCESS));
        }
        for account in pending.gaps {
            messages.entry(account).or_default().gap = true;
        }
        let encode_message = |(account, message)| {
            (account_channel(account), encode(&AccountMessage { from: self.server_id, ..message }))
        };
        messages.into_iter().map(encode_message).collect()
    }

    /// Applies a message of another server about an account.
    fn handle_message(&self, account: AccountId, message: AccountMessage) {
        if message.from == self.server_id {
            return;
        }
        self.metrics.count_received();
        for (index, (cluster, changed, arrival, oldest_item_ms)) in message.clusters.into_iter().enumerate() {
            let (cluster, changed) = (ClusterId(cluster), ChangeKinds::from_bits(changed));
            // Without the preceding arrival number, a notice may have been missed.
            let previous_arrival = message.previous_arrivals.get(index).copied().unwrap_or(arrival);
            self.local
                .publish(account, Notice { cluster, changed, arrival, previous_arrival, oldest_item_ms });
        }
        let changed = ChangeKinds::from_bits(message.account) | ChangeKinds::ACCESS.only_if(message.access);
        self.local.publish_account(account, changed);
        if message.gap {
            self.local.publish_gap(account);
        }
    }
}

async fn run_with_reconnects(shared: Arc<Shared>, client: Client) {
    let mut has_warned = false;
    loop {
        let Err(error) = Connection::run(&shared, &client).await;
        let was_connected = shared.is_connected.swap(false, Ordering::AcqRel);
        shared.has_unknown_peers.store(false, Ordering::Release);
        let pending = mem::take(&mut *shared.lock_pending());
        shared.metrics.count_lost_connection();
        shared.metrics.count_dropped(pending.clusters.len());
        shared.watched_elsewhere.write().unwrap_or_else(PoisonError::into_inner).clear();
        if was_connected || !has_warned {
            tracing::warn!(%error, "redis: not connected, no notifications from other servers; retrying");
            has_warned = true;
        }
        sleep(RECONNECT_DELAY).await;
    }
}

/// A connection to Redis, until its first error.
struct Connection<'a> {
    shared: &'a Shared,
    publisher: MultiplexedConnection,
    /// The accounts that each other server watches, and the time of its last announcement.
    peers: HashMap<Uuid, (HashSet<AccountId>, Instant)>,
    /// The time at which this server last received its own announcement.
    own_announcement_at: Instant,
}

/// An uninhabited type: a connection ends only with an error.
enum Never {}

impl Connection<'_> {
    async fn run(shared: &Shared, client: &Client) -> Result<Never, RedisError> {
        let connect = async {
            let mut listener = client.get_async_pubsub().await?;
            listener.subscribe(PRESENCE_CHANNEL).await?;
            Ok::<_, RedisError>((listener, client.get_multiplexed_async_connection().await?))
        };
        let (listener, publisher) = timeout(OPERATION_TIMEOUT, connect).await.map_err(|_| timed_out())??;
        shared.metrics.count_connection();
        let (mut sink, mut stream) = listener.split();
        let connected_at = Instant::now();
        let mut connection =
            Connection { shared, publisher, peers: HashMap::new(), own_announcement_at: connected_at };
        // This comes before the request for the announcements of the other servers, which treat it as a gap.
        shared.has_unknown_peers.store(true, Ordering::Release);
        let mut watched = HashSet::new();
        let mut announce_ticks = interval(ANNOUNCE_INTERVAL);
        announce_ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut requests_reply, mut pending_gaps) = (true, Vec::new());
        loop {
            tokio::select! {
                message = stream.next() => {
                    let message = message.ok_or_else(timed_out)?;
                    let (name, payload) = (message.get_channel_name(), message.get_payload_bytes());
                    if connection.handle_message(name, payload) {
                        // A server that requests a reply has just connected, and published nothing before.
                        shared.local.publish_gaps(&watched);
                        connection.announce(&watched, false).await?;
                    }
                }
                () = shared.local.accounts_changed() => {}
                () = shared.pending_added.notified() => {
                    let is_closing = shared.is_closing.load(Ordering::Acquire);
                    let messages = shared.take_messages();
                    let count = messages.len();
                    connection.publish(messages).await?;
                    shared.metrics.count_published(count);
                    if is_closing {
                        shared.final_publication.notify_one();
                    }
                    sleep(BATCH_INTERVAL).await;
                }
                _ = announce_ticks.tick() => {
                    if connection.own_announcement_at.elapsed() > PEER_TIMEOUT {
                        return Err(timed_out());
                    }
                    if connection.remove_dead_peers() {
                        // A stopped server may not have published its last changes.
                        shared.local.publish_gaps(&watched);
                    }
                    if connected_at.elapsed() > PEER_TIMEOUT {
                        shared.has_unknown_peers.store(false, Ordering::Release);
                    }
                    connection.announce(&watched, mem::take(&mut requests_reply)).await?;
                }
                () = wait_for_next_gap(&pending_gaps) => {
                    let (_, accounts): (Instant, Vec<AccountId>) = pending_gaps.remove(0);
                    shared.local.publish_gaps(&accounts);
                }
            }
            let current_accounts: HashSet<AccountId> = shared.local.accounts().into_iter().collect();
            if current_accounts != watched {
                let added_accounts: Vec<AccountId> = current_accounts.difference(&watched).copied().collect();
                let removed_channels: Vec<String> =
                    watched.difference(&current_accounts).copied().map(account_channel).collect();
                let added_channels: Vec<String> =
                    added_accounts.iter().copied().map(account_channel).collect();
                let update_channels = async {
                    if !added_channels.is_empty() {
                        sink.subscribe(&added_channels).await?;
                    }
                    if removed_channels.is_empty() {
                        Ok(())
                    } else {
                        sink.unsubscribe(&removed_channels).await
                    }
                };
                timeout(OPERATION_TIMEOUT, update_channels).await.map_err(|_| timed_out())??;
                watched = current_accounts;
                connection.announce(&watched, false).await?;
                pending_gaps.push((Instant::now() + ANNOUNCE_LAG, added_accounts));
            }
            if !shared.is_connected.load(Ordering::Acquire) {
                // The gap is published before `is_connected` becomes true, so that no subscriber relies on
                // complete notices before it has read the database.
                shared.local.publish_gaps(&watched);
                shared.is_connected.store(true, Ordering::Release);
                tracing::info!("redis: connected, receiving notifications from other servers");
            }
        }
    }

    /// Handles a message. Returns true if another server requests the announcement of this one.
    fn handle_message(&mut self, name: &str, payload: &[u8]) -> bool {
        if name != PRESENCE_CHANNEL {
            let account = name.rsplit(':').next().and_then(|account| account.parse().ok());
            if let (Some(account), Ok(message)) = (account, serde_json::from_slice(payload)) {
                self.shared.handle_message(account, message);
            }
            return false;
        }
        let Ok(Presence { from, accounts, is_continuation, requests_reply }) =
            serde_json::from_slice(payload)
        else {
            return false;
        };
        if from == self.shared.server_id {
            self.own_announcement_at = Instant::now();
            return false;
        }
        let (peer_accounts, announced_at) =
            self.peers.entry(from).or_insert_with(|| (HashSet::new(), Instant::now()));
        if !is_continuation {
            peer_accounts.clear();
        }
        peer_accounts.extend(accounts);
        *announced_at = Instant::now();
        self.update_watched_elsewhere();
        requests_reply
    }

    /// Removes the servers that are presumed stopped. Returns true if there were any.
    fn remove_dead_peers(&mut self) -> bool {
        let peer_count = self.peers.len();
        self.peers.retain(|_, (_, announced_at)| announced_at.elapsed() < PEER_TIMEOUT);
        let has_dead_peers = self.peers.len() < peer_count;
        if has_dead_peers {
            self.update_watched_elsewhere();
        }
        has_dead_peers
    }

    fn update_watched_elsewhere(&self) {
        let watched = self.peers.values().flat_map(|(accounts, _)| accounts.iter().copied()).collect();
        *self.shared.watched_elsewhere.write().unwrap_or_else(PoisonError::into_inner) = watched;
    }

    /// Announces the accounts that this server watches.
    async fn announce(
        &mut self,
        watched: &HashSet<AccountId>,
        requests_reply: bool,
    ) -> Result<(), RedisError> {
        let accounts: Vec<AccountId> = watched.iter().copied().collect();
        let mut chunks: Vec<&[AccountId]> = accounts.chunks(MAX_ACCOUNTS_PER_MESSAGE).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        let messages = chunks.into_iter().enumerate().map(|(index, accounts)| {
            let (from, accounts) = (self.shared.server_id, accounts.to_vec());
            let presence = Presence {
                from,
                accounts,
                is_continuation: index > 0,
                requests_reply: requests_reply && index == 0,
            };
            (PRESENCE_CHANNEL.to_owned(), encode(&presence))
        });
        self.publish(messages.collect()).await
    }

    async fn publish(&mut self, messages: Vec<(String, String)>) -> Result<(), RedisError> {
        if messages.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::pipe();
        for (channel, message) in messages {
            pipe.publish(channel, message).ignore();
        }
        timeout(OPERATION_TIMEOUT, pipe.query_async::<()>(&mut self.publisher))
            .await
            .map_err(|_| timed_out())?
    }
}

/// Waits until the first pending gap is due. Waits forever if there is none.
async fn wait_for_next_gap(pending_gaps: &[(Instant, Vec<AccountId>)]) {
    match pending_gaps.first() {
        Some((due_at, _)) => tokio::time::sleep_until(*due_at).await,
        None => std::future::pending().await,
    }
}

fn account_channel(account: AccountId) -> String {
    format!("galvo:1:account:{account}")
}

fn encode(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("numbers and names are valid JSON")
}
