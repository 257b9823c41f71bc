//! Several servers of one store, which hear of one another through Redis.
//!
//! Each account that is watched somewhere has a channel. A server says on a channel of its own which accounts it watches, so
//! that nobody publishes for whom nobody watches; it says so again and again, and hears itself: when it does not, the
//! connection is of no use any more and another is made. What was to be published meanwhile is lost, so that with each new
//! connection of any server everybody is told of a gap, and reads. Nothing waits for Redis: not a commit, and not a query.

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

use super::{Bus, Changed, InProcess, Notice, Watch};
use crate::metrics::BusMetrics;

/// Where servers say what they watch.
const PRESENCE: &str = "galvo:1:watching";

/// Between two publications: so long notices are gathered.
const GATHERED: Duration = Duration::from_millis(50);

/// How often a server says what it watches.
const SAID: Duration = Duration::from_secs(3);

/// After this time without a word a server is gone, and a connection of no use.
const SILENT: Duration = Duration::from_secs(10);

/// How long Redis may take over anything.
const PATIENCE: Duration = Duration::from_secs(2);

/// Before a connection is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long after it began to watch an account a server may not hear of changes, because the others do not know of it.
const UNKNOWN: Duration = Duration::from_millis(500);

/// Clusters whose notices wait to be published. Of more, a gap is.
const MAX_WAITING: usize = 20_000;

/// Accounts that are named in one message.
const MAX_NAMED: usize = 1_000;

/// Where Redis is. `Debug` leaves the password out.
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
    /// Has it pass a message on, and returns its version if it tells it.
    ///
    /// # Errors
    /// When it does not answer, or may not do what the bus does.
    pub(crate) async fn examine(&self) -> Result<Option<String>, RedisError> {
        let (channel, message) = (format!("galvo:1:doctor:{}", Uuid::new_v4()), "heard");
        let pass_on = async {
            let mut listener = self.0.get_async_pubsub().await?;
            listener.subscribe(&channel).await?;
            let mut publisher = self.0.get_multiplexed_async_connection().await?;
            redis::cmd("PUBLISH").arg(&channel).arg(message).exec_async(&mut publisher).await?;
            listener.on_message().next().await.ok_or_else(silent)?;
            // Not everybody may ask that.
            let told: Result<String, _> = redis::cmd("INFO").arg("server").query_async(&mut publisher).await;
            let version = told.ok().and_then(|told| {
                let line = told.lines().find_map(|line| line.strip_prefix("redis_version:"))?;
                Some(line.trim().to_owned())
            });
            Ok(version)
        };
        timeout(PATIENCE, pass_on).await.map_err(|_| silent())?
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
    /// Who this server is to the others.
    server: Uuid,
    /// Whether a connection is there.
    whole: AtomicBool,
    /// The accounts that others watch.
    elsewhere: RwLock<HashSet<AccountId>>,
    /// Whether there may be others that have not said yet what they watch.
    unsure: AtomicBool,
    waiting: Mutex<Waiting>,
    called: Notify,
    metrics: BusMetrics,
    /// Whether this server ends.
    closing: AtomicBool,
    /// Told once all is published then.
    closed: Notify,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({})", self.server)
    }
}

/// What is to be published.
#[derive(Default)]
struct Waiting {
    clusters: BTreeMap<(AccountId, ClusterId), Notice>,
    access: HashSet<AccountId>,
    gaps: HashSet<AccountId>,
}

/// What changed in an account.
#[derive(Debug, Default, Serialize, Deserialize)]
struct News {
    from: Uuid,
    /// The number of the cluster, what changed, its arrival, and since when.
    #[serde(default)]
    clusters: Vec<(i64, u16, i64, Option<i64>)>,
    /// The places of the changes before, in the same order. Servers of other releases may not tell them, nor know them.
    #[serde(default)]
    after: Vec<i64>,
    #[serde(default)]
    access: bool,
    #[serde(default)]
    gap: bool,
}

/// What a server watches.
#[derive(Debug, Serialize, Deserialize)]
struct Presence {
    from: Uuid,
    accounts: Vec<AccountId>,
    /// Whether it watches these besides those it named before.
    more: bool,
    /// Whether it asks the others to say what they watch.
    asks: bool,
}

impl Redis {
    /// Begins to connect. Whether Redis answers is not waited for.
    #[must_use]
    pub(crate) fn start(url: &RedisUrl, metrics: BusMetrics) -> Self {
        let shared = Arc::new(Shared {
            local: InProcess::default(),
            server: Uuid::new_v4(),
            whole: AtomicBool::new(false),
            elsewhere: RwLock::default(),
            unsure: AtomicBool::new(false),
            waiting: Mutex::default(),
            called: Notify::new(),
            metrics,
            closing: AtomicBool::new(false),
            closed: Notify::new(),
        });
        let task = tokio::spawn(connect_again_and_again(Arc::clone(&shared), url.0.clone()));
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
        self.shared.tell(account, |waiting| {
            let key = (account, notice.cluster);
            if let Some(known) = waiting.clusters.get_mut(&key) {
                *known = known.with(notice);
            } else if waiting.clusters.len() < MAX_WAITING {
                waiting.clusters.insert(key, notice);
            } else {
                waiting.gaps.insert(account);
                self.shared.metrics.dropped(1);
            }
        });
    }

    fn publish_access(&self, account: AccountId) {
        self.shared.local.publish_access(account);
        self.shared.tell(account, |waiting| {
            waiting.access.insert(account);
        });
    }

    fn watch(&self, account: AccountId, what: Changed) -> Watch {
        self.shared.local.watch(account, what)
    }

    fn look_again(&self, account: AccountId) {
        self.shared.local.publish_gap(account);
    }

    fn is_whole(&self) -> bool {
        self.shared.whole.load(Ordering::Acquire)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.is_whole() {
                self.shared.closing.store(true, Ordering::Release);
                self.shared.called.notify_one();
                let _ = timeout(PATIENCE, self.shared.closed.notified()).await;
            }
        })
    }
}

impl Shared {
    /// Puts something down to be published, if others watch the account.
    fn tell(&self, account: AccountId, put: impl FnOnce(&mut Waiting)) {
        let watched = || self.elsewhere.read().unwrap_or_else(PoisonError::into_inner).contains(&account);
        if !self.unsure.load(Ordering::Acquire) && !watched() {
            return;
        }
        put(&mut self.waiting());
        self.called.notify_one();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The messages that are to be published, with their channels.
    fn messages(&self) -> Vec<(String, String)> {
        let waiting = mem::take(&mut *self.waiting());
        let mut news: BTreeMap<AccountId, News> = BTreeMap::new();
        for ((account, cluster), notice) in waiting.clusters {
            let Notice { changed, arrival, after, since, .. } = notice;
            let news = news.entry(account).or_default();
            news.clusters.push((cluster.0, changed.bits(), arrival, since));
            news.after.push(after);
        }
        for account in waiting.access {
            news.entry(account).or_default().access = true;
        }
        for account in waiting.gaps {
            news.entry(account).or_default().gap = true;
        }
        for news in news.values_mut() {
            news.from = self.server;
        }
        news.iter().map(|(account, news)| (channel(*account), written(news))).collect()
    }

    /// What another server published of an account.
    fn hear(&self, account: AccountId, news: News) {
        if news.from == self.server {
            return;
        }
        self.metrics.received();
        for (index, (cluster, changed, arrival, since)) in news.clusters.into_iter().enumerate() {
            let (cluster, changed) = (ClusterId(cluster), Changed::of_bits(changed));
            // Where it is not told, something may have been missed.
            let after = news.after.get(index).copied().unwrap_or(arrival);
            self.local.publish(account, Notice { cluster, changed, arrival, after, since });
        }
        if news.access {
            self.local.publish_access(account);
        }
        if news.gap {
            self.local.publish_gap(account);
        }
    }
}

async fn connect_again_and_again(shared: Arc<Shared>, client: Client) {
    let mut said = false;
    loop {
        let Err(error) = Session::run(&shared, &client).await;
        let was_whole = shared.whole.swap(false, Ordering::AcqRel);
        shared.unsure.store(false, Ordering::Release);
        let waiting = mem::take(&mut *shared.waiting());
        shared.metrics.lost();
        shared.metrics.dropped(waiting.clusters.len());
        shared.elsewhere.write().unwrap_or_else(PoisonError::into_inner).clear();
        if was_whole || !said {
            tracing::warn!(%error, "Redis is away: other servers are not heard");
            said = true;
        }
        sleep(PAUSE).await;
    }
}

/// A connection, as long as it is of use.
struct Session<'a> {
    shared: &'a Shared,
    publisher: MultiplexedConnection,
    /// What others watch, and when they last said so.
    others: HashMap<Uuid, (HashSet<AccountId>, Instant)>,
    /// When this server last heard itself.
    heard: Instant,
}

/// Nothing: a session ends with an error.
enum Never {}

impl Session<'_> {
    async fn run(shared: &Shared, client: &Client) -> Result<Never, RedisError> {
        let connect = async {
            let mut listener = client.get_async_pubsub().await?;
            listener.subscribe(PRESENCE).await?;
            Ok::<_, RedisError>((listener, client.get_multiplexed_async_connection().await?))
        };
        let (listener, publisher) = timeout(PATIENCE, connect).await.map_err(|_| silent())??;
        shared.metrics.connected();
        let (mut sink, mut stream) = listener.split();
        let begun = Instant::now();
        let mut session = Session { shared, publisher, others: HashMap::new(), heard: begun };
        // Before the others are asked what they watch, who take that for a gap.
        shared.unsure.store(true, Ordering::Release);
        let mut watched = HashSet::new();
        let mut says = interval(SAID);
        says.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut asks, mut unknown) = (true, Vec::new());
        loop {
            tokio::select! {
                message = stream.next() => {
                    let message = message.ok_or_else(silent)?;
                    let (name, payload) = (message.get_channel_name(), message.get_payload_bytes());
                    if session.hear(name, payload) {
                        // Whoever asks was away, and published nothing.
                        shared.local.publish_gaps(&watched);
                        session.say(&watched, false).await?;
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
                    sleep(GATHERED).await;
                }
                _ = says.tick() => {
                    if session.heard.elapsed() > SILENT {
                        return Err(silent());
                    }
                    if session.forget_the_silent() {
                        // What one that is gone changed last, it may not have told.
                        shared.local.publish_gaps(&watched);
                    }
                    if begun.elapsed() > SILENT {
                        shared.unsure.store(false, Ordering::Release);
                    }
                    session.say(&watched, mem::take(&mut asks)).await?;
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
                timeout(PATIENCE, subscribe).await.map_err(|_| silent())??;
                watched = now;
                session.say(&watched, false).await?;
                unknown.push((Instant::now() + UNKNOWN, new));
            }
            if !shared.whole.load(Ordering::Acquire) {
                // Told before it counts as whole, so that nobody believes to have heard all before they have read.
                shared.local.publish_gaps(&watched);
                shared.whole.store(true, Ordering::Release);
                tracing::info!("Redis is there: other servers are heard");
            }
        }
    }

    /// What came on a channel. Returns whether somebody asks what is watched here.
    fn hear(&mut self, name: &str, payload: &[u8]) -> bool {
        if name != PRESENCE {
            let account = name.rsplit(':').next().and_then(|account| account.parse().ok());
            if let (Some(account), Ok(news)) = (account, serde_json::from_slice(payload)) {
                self.shared.hear(account, news);
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
        self.tell_elsewhere();
        asks
    }

    /// Returns whether there were any.
    fn forget_the_silent(&mut self) -> bool {
        let before = self.others.len();
        self.others.retain(|_, (_, said)| said.elapsed() < SILENT);
        let some = self.others.len() < before;
        if some {
            self.tell_elsewhere();
        }
        some
    }

    fn tell_elsewhere(&self) {
        let watched = self.others.values().flat_map(|(accounts, _)| accounts.iter().copied()).collect();
        *self.shared.elsewhere.write().unwrap_or_else(PoisonError::into_inner) = watched;
    }

    /// Says what is watched here.
    async fn say(&mut self, watched: &HashSet<AccountId>, asks: bool) -> Result<(), RedisError> {
        let accounts: Vec<AccountId> = watched.iter().copied().collect();
        let mut parts: Vec<&[AccountId]> = accounts.chunks(MAX_NAMED).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let said = parts.into_iter().enumerate().map(|(number, accounts)| {
            let (from, accounts) = (self.shared.server, accounts.to_vec());
            let presence = Presence { from, accounts, more: number > 0, asks: asks && number == 0 };
            (PRESENCE.to_owned(), written(&presence))
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
        timeout(PATIENCE, pipe.query_async::<()>(&mut self.publisher)).await.map_err(|_| silent())?
    }
}

/// Waits until those accounts may have been missed that began to be watched first.
async fn gap_due(unknown: &[(Instant, Vec<AccountId>)]) {
    match unknown.first() {
        Some((due, _)) => tokio::time::sleep_until(*due).await,
        None => std::future::pending().await,
    }
}

fn silent() -> RedisError {
    RedisError::from(std::io::Error::new(std::io::ErrorKind::TimedOut, "it says nothing"))
}

fn channel(account: AccountId) -> String {
    format!("galvo:1:account:{account}")
}

fn written(message: &impl Serialize) -> String {
    serde_json::to_string(message).expect("it is made of numbers and names")
}
