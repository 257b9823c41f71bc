//! The bus of several servers of one store, over Redis.
//!
//! Each account with a subscriber has a channel. Each server announces on the presence channel which
//! accounts it watches, so that no server publishes an account that no other server watches. It repeats
//! the announcement and receives its own: without it, the connection is presumed dead and replaced.
//! Notices published in the meantime are lost. Therefore each new connection of any server reports a gap
//! to all subscribers, which then read the database. Neither a commit nor a query ever waits for Redis.

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
use redis::{Client, IntoConnectionInfo, RedisError, aio::MultiplexedConnection};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::Notify,
    task::AbortHandle,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use uuid::Uuid;

use super::{Bus, BusSubscription, ChangeKinds, InProcess, Notice};
use crate::metrics::BusMetrics;

/// The channel on which servers announce the accounts that they watch.
const PRESENCE: &str = "galvo:1:watching";

/// The pause between two publications, during which notices are collected.
const BATCH_INTERVAL: Duration = Duration::from_millis(50);

/// The interval between two announcements of the watched accounts.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(3);

/// The time without a message after which another server is presumed gone, or the own connection dead.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of each operation on Redis.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(2);

/// The delay before a reconnect.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// The time after the start of a subscription during which changes may be missed, because the other
/// servers do not know yet that this one watches the account.
const ANNOUNCE_LAG: Duration = Duration::from_millis(500);

/// The limit of clusters with pending notices. Beyond it, a gap is published.
const MAX_WAITING: usize = 20_000;

/// The number of accounts in one message.
const MAX_ACCOUNTS_PER_MESSAGE: usize = 1_000;

/// The address of Redis. `Debug` leaves the password out.
#[derive(Clone)]
pub struct RedisUrl(Client);

impl std::str::FromStr for RedisUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        // The parser's own messages can repeat the URL, password included.
        let wrong = || "must be redis://… or rediss://…".to_owned();
        if !url.starts_with("redis://") && !url.starts_with("rediss://") {
            return Err(wrong());
        }
        let info = url.into_connection_info().map_err(|_| wrong())?;
        Client::open(info).map(Self).map_err(|_| wrong())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redis {}", self.0.get_connection_info().addr())
    }
}

impl RedisUrl {
    /// Publishes a message, waits until it arrives, and returns the version of Redis. The version is
    /// None if the user may not run `INFO`.
    ///
    /// # Errors
    /// Returns an error if Redis does not answer in time, or denies a command that the bus needs.
    pub(crate) async fn check_connection(&self) -> Result<Option<String>, RedisError> {
        let (channel, message) = (format!("galvo:1:doctor:{}", Uuid::new_v4()), "heard");
        let pass_on = async {
            let mut listener = self.0.get_async_pubsub().await?;
            listener.subscribe(&channel).await?;
            let mut publisher = self.0.get_multiplexed_async_connection().await?;
            redis::cmd("PUBLISH").arg(&channel).arg(message).exec_async(&mut publisher).await?;
            listener.on_message().next().await.ok_or_else(timed_out)?;
            // The user may lack the permission for `INFO`.
            let info: Result<String, _> = redis::cmd("INFO").arg("server").query_async(&mut publisher).await;
            let version = info.ok().and_then(|info| {
                let line = info.lines().find_map(|line| line.strip_prefix("redis_version:"))?;
                Some(line.trim().to_owned())
            });
            Ok(version)
        };
        timeout(OPERATION_TIMEOUT, pass_on).await.map_err(|_| timed_out())?
    }
}

/// The bus of several processes.
#[derive(Debug)]
pub struct Redis {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    local: InProcess,
    /// The identifier of this server in messages.
    server: Uuid,
    /// True while a connection exists.
    whole: AtomicBool,
    /// The accounts that other servers watch.
    watched_elsewhere: RwLock<HashSet<AccountId>>,
    /// True while there may be servers that have not announced yet what they watch.
    has_unknown_peers: AtomicBool,
    waiting: Mutex<PendingNotices>,
    called: Notify,
    metrics: BusMetrics,
    /// True if this server is stopping.
    closing: AtomicBool,
    /// Notified after the last publication before the server stops.
    closed: Notify,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({})", self.server)
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
    #[serde(default)]
    after: Vec<i64>,
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
    more: bool,
    /// True if the server requests the announcements of the others.
    asks: bool,
}

impl Redis {
    /// Starts connecting in the background, and does not wait for Redis.
    #[must_use]
    pub(crate) fn start(url: &RedisUrl, metrics: BusMetrics) -> Self {
        let shared = Arc::new(Shared {
            local: InProcess::default(),
            server: Uuid::new_v4(),
            whole: AtomicBool::new(false),
            watched_elsewhere: RwLock::default(),
            has_unknown_peers: AtomicBool::new(false),
            waiting: Mutex::default(),
            called: Notify::new(),
            metrics,
            closing: AtomicBool::new(false),
            closed: Notify::new(),
        });
        let task = tokio::spawn(run_reconnecting(Arc::clone(&shared), url.0.clone()));
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
        self.shared.enqueue(account, |waiting| {
            let key = (account, notice.cluster);
            if let Some(known) = waiting.clusters.get_mut(&key) {
                *known = known.merge(notice);
            } else if waiting.clusters.len() < MAX_WAITING {
                waiting.clusters.insert(key, notice);
            } else {
                waiting.gaps.insert(account);
                self.shared.metrics.dropped(1);
            }
        });
    }

    fn publish_account(&self, account: AccountId, changed: ChangeKinds) {
        self.shared.local.publish_account(account, changed);
        self.shared.enqueue(account, |waiting| {
            let known = waiting.accounts.entry(account).or_default();
            *known = *known | changed;
        });
    }

    fn watch(&self, account: AccountId, what: ChangeKinds) -> BusSubscription {
        self.shared.local.watch(account, what)
    }

    fn force_resync(&self, account: AccountId) {
        self.shared.local.publish_gap(account);
    }

    fn is_connected(&self) -> bool {
        self.shared.whole.load(Ordering::Acquire)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.is_connected() {
                self.shared.closing.store(true, Ordering::Release);
                self.shared.called.notify_one();
                let _ = timeout(OPERATION_TIMEOUT, self.shared.closed.notified()).await;
            }
        })
    }
}

impl Shared {
    /// Queues a notice for publication, unless no other server watches the account.
    fn enqueue(&self, account: AccountId, put: impl FnOnce(&mut PendingNotices)) {
        let watched =
            || self.watched_elsewhere.read().unwrap_or_else(PoisonError::into_inner).contains(&account);
        if !self.has_unknown_peers.load(Ordering::Acquire) && !watched() {
            return;
        }
        put(&mut self.waiting());
        self.called.notify_one();
    }

    fn waiting(&self) -> MutexGuard<'_, PendingNotices> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the queued notices, and returns one message per account with its channel.
    fn messages(&self) -> Vec<(String, String)> {
        let waiting = mem::take(&mut *self.waiting());
        let mut news: BTreeMap<AccountId, AccountMessage> = BTreeMap::new();
        for ((account, cluster), notice) in waiting.clusters {
            let Notice { changed, arrival, after, since, .. } = notice;
            let news = news.entry(account).or_default();
            news.clusters.push((cluster.0, changed.bits(), arrival, since));
            news.after.push(after);
        }
        for (account, changed) in waiting.accounts {
            let news = news.entry(account).or_default();
            (news.account, news.access) = (changed.bits(), changed.intersects(ChangeKinds::ACCESS));
        }
        for account in waiting.gaps {
            news.entry(account).or_default().gap = true;
        }
        let message =
            |(account, news)| (channel(account), encode(&AccountMessage { from: self.server, ..news }));
        news.into_iter().map(message).collect()
    }

    /// Applies a message of another server about an account.
    fn handle_message(&self, account: AccountId, news: AccountMessage) {
        if news.from == self.server {
            return;
        }
        self.metrics.received();
        for (index, (cluster, changed, arrival, since)) in news.clusters.into_iter().enumerate() {
            let (cluster, changed) = (ClusterId(cluster), ChangeKinds::from_bits(changed));
            // Without the preceding arrival number, a notice may have been missed.
            let after = news.after.get(index).copied().unwrap_or(arrival);
            self.local.publish(account, Notice { cluster, changed, arrival, after, since });
        }
        let changed = ChangeKinds::from_bits(news.account) | ChangeKinds::ACCESS.only_if(news.access);
        self.local.publish_account(account, changed);
        if news.gap {
            self.local.publish_gap(account);
        }
    }
}

async fn run_reconnecting(shared: Arc<Shared>, client: Client) {
    let mut said = false;
    loop {
        let Err(error) = Session::run(&shared, &client).await;
        let was_whole = shared.whole.swap(false, Ordering::AcqRel);
        shared.has_unknown_peers.store(false, Ordering::Release);
        let waiting = mem::take(&mut *shared.waiting());
        shared.metrics.lost();
        shared.metrics.dropped(waiting.clusters.len());
        shared.watched_elsewhere.write().unwrap_or_else(PoisonError::into_inner).clear();
        if was_whole || !said {
            tracing::warn!(%error, "redis: not connected, no notifications from other servers; retrying");
            said = true;
        }
        sleep(RECONNECT_DELAY).await;
    }
}

/// A connection, for as long as it works.
struct Session<'a> {
    shared: &'a Shared,
    publisher: MultiplexedConnection,
    /// The accounts that each other server watches, and the time of its last announcement.
    others: HashMap<Uuid, (HashSet<AccountId>, Instant)>,
    /// The time at which this server last received its own announcement.
    heard: Instant,
}

/// An uninhabited type: a session ends only with an error.
enum Never {}

impl Session<'_> {
    async fn run(shared: &Shared, client: &Client) -> Result<Never, RedisError> {
        let connect = async {
            let mut listener = client.get_async_pubsub().await?;
            listener.subscribe(PRESENCE).await?;
            Ok::<_, RedisError>((listener, client.get_multiplexed_async_connection().await?))
        };
        let (listener, publisher) = timeout(OPERATION_TIMEOUT, connect).await.map_err(|_| timed_out())??;
        shared.metrics.connected();
        let (mut sink, mut stream) = listener.split();
        let begun = Instant::now();
        let mut session = Session { shared, publisher, others: HashMap::new(), heard: begun };
        // Set before the other servers are asked what they watch: they take that request for a gap.
        shared.has_unknown_peers.store(true, Ordering::Release);
        let mut watched = HashSet::new();
        let mut says = interval(ANNOUNCE_INTERVAL);
        says.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut asks, mut unknown) = (true, Vec::new());
        loop {
            tokio::select! {
                message = stream.next() => {
                    let message = message.ok_or_else(timed_out)?;
                    let (name, payload) = (message.get_channel_name(), message.get_payload_bytes());
                    if session.handle_message(name, payload) {
                        // A server that asks has just connected, and published nothing before.
                        shared.local.publish_gaps(&watched);
                        session.announce(&watched, false).await?;
                    }
                }
                () = shared.local.accounts_changed() => {}
                () = shared.called.notified() => {
                    let closing = shared.closing.load(Ordering::Acquire);
                    let messages = shared.messages();
                    let count = messages.len();
                    session.publish(messages).await?;
                    shared.metrics.published(count);
                    if closing {
                        shared.closed.notify_one();
                    }
                    sleep(BATCH_INTERVAL).await;
                }
                _ = says.tick() => {
                    if session.heard.elapsed() > PEER_TIMEOUT {
                        return Err(timed_out());
                    }
                    if session.remove_dead_peers() {
                        // A server that is gone may not have published its last changes.
                        shared.local.publish_gaps(&watched);
                    }
                    if begun.elapsed() > PEER_TIMEOUT {
                        shared.has_unknown_peers.store(false, Ordering::Release);
                    }
                    session.announce(&watched, mem::take(&mut asks)).await?;
                }
                () = gap_due(&unknown) => {
                    let (_, accounts): (Instant, Vec<AccountId>) = unknown.remove(0);
                    shared.local.publish_gaps(&accounts);
                }
            }
            let now: HashSet<AccountId> = shared.local.accounts().into_iter().collect();
            if now != watched {
                let new: Vec<AccountId> = now.difference(&watched).copied().collect();
                let left: Vec<String> = watched.difference(&now).copied().map(channel).collect();
                let channels: Vec<String> = new.iter().copied().map(channel).collect();
                let subscribe = async {
                    if !channels.is_empty() {
                        sink.subscribe(&channels).await?;
                    }
                    if left.is_empty() { Ok(()) } else { sink.unsubscribe(&left).await }
                };
                timeout(OPERATION_TIMEOUT, subscribe).await.map_err(|_| timed_out())??;
                watched = now;
                session.announce(&watched, false).await?;
                unknown.push((Instant::now() + ANNOUNCE_LAG, new));
            }
            if !shared.whole.load(Ordering::Acquire) {
                // The gap comes before the connection counts as complete, so that no subscriber assumes
                // completeness before it has read.
                shared.local.publish_gaps(&watched);
                shared.whole.store(true, Ordering::Release);
                tracing::info!("redis: connected, receiving notifications from other servers");
            }
        }
    }

    /// Handles a message. Returns true if another server requests the announcement of this one.
    fn handle_message(&mut self, name: &str, payload: &[u8]) -> bool {
        if name != PRESENCE {
            let account = name.rsplit(':').next().and_then(|account| account.parse().ok());
            if let (Some(account), Ok(news)) = (account, serde_json::from_slice(payload)) {
                self.shared.handle_message(account, news);
            }
            return false;
        }
        let Ok(Presence { from, accounts, more, asks }) = serde_json::from_slice(payload) else {
            return false;
        };
        if from == self.shared.server {
            self.heard = Instant::now();
            return false;
        }
        let known = self.others.entry(from).or_insert_with(|| (HashSet::new(), Instant::now()));
        if !more {
            known.0.clear();
        }
        known.0.extend(accounts);
        known.1 = Instant::now();
        self.update_watched_elsewhere();
        asks
    }

    /// Removes the servers that are presumed gone. Returns true if there were any.
    fn remove_dead_peers(&mut self) -> bool {
        let before = self.others.len();
        self.others.retain(|_, (_, said)| said.elapsed() < PEER_TIMEOUT);
        let some = self.others.len() < before;
        if some {
            self.update_watched_elsewhere();
        }
        some
    }

    fn update_watched_elsewhere(&self) {
        let watched = self.others.values().flat_map(|(accounts, _)| accounts.iter().copied()).collect();
        *self.shared.watched_elsewhere.write().unwrap_or_else(PoisonError::into_inner) = watched;
    }

    /// Announces the accounts that this server watches.
    async fn announce(&mut self, watched: &HashSet<AccountId>, asks: bool) -> Result<(), RedisError> {
        let accounts: Vec<AccountId> = watched.iter().copied().collect();
        let mut parts: Vec<&[AccountId]> = accounts.chunks(MAX_ACCOUNTS_PER_MESSAGE).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let said = parts.into_iter().enumerate().map(|(number, accounts)| {
            let (from, accounts) = (self.shared.server, accounts.to_vec());
            let presence = Presence { from, accounts, more: number > 0, asks: asks && number == 0 };
            (PRESENCE.to_owned(), encode(&presence))
        });
        let said = said.collect();
        self.publish(said).await
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

/// Waits until the oldest new subscription needs its gap report.
async fn gap_due(unknown: &[(Instant, Vec<AccountId>)]) {
    match unknown.first() {
        Some((due, _)) => tokio::time::sleep_until(*due).await,
        None => std::future::pending().await,
    }
}

fn timed_out() -> RedisError {
    RedisError::from(std::io::Error::new(std::io::ErrorKind::TimedOut, "it says nothing"))
}

fn channel(account: AccountId) -> String {
    format!("galvo:1:account:{account}")
}

fn encode(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("it is made of numbers and names")
}
