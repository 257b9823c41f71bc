//! The batch loader: reads what the fields of one request need, together and once.
//!
//! The loader of async-graphql waits one millisecond on a timer for further keys, and reads in tasks of
//! its own. A request is resolved in one task: after one poll of this task, every field that can request
//! a key has requested it. This loader therefore yields to the runtime once, and then reads in the same
//! task.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    hash::Hash,
    mem,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use async_graphql::dataloader::Loader;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared, try_join_all},
    task::AtomicWaker,
};

/// A batch loader, which reads each key once.
pub(crate) struct BatchLoader<Reader>(Arc<Inner<Reader>>);

struct Inner<Reader> {
    reader: Reader,
    /// A [`KeyCache`] for each type of key.
    key_caches: Mutex<HashMap<TypeId, Box<dyn Any + Send>>>,
    max_batch: usize,
}

/// The result of reading a batch, shared by all futures that await it. The values are in the cache.
/// The future runs only while it is awaited, so the loader holds a weak reference only.
type PendingBatch<Failure> = Shared<BoxFuture<'static, Result<(), Failure>>>;
type WeakPendingBatch<Failure> = WeakShared<BoxFuture<'static, Result<(), Failure>>>;

/// The values of keys of one type.
struct KeyCache<Key, Value, Failure: Clone> {
    entries: HashMap<Key, CacheEntry<Value, Failure>>,
    /// The keys of the next batch.
    next: Option<(Vec<Key>, WeakPendingBatch<Failure>)>,
}

enum CacheEntry<Value, Failure: Clone> {
    /// The key was read. `None` if it has no value.
    Read(Option<Value>),
    /// The key will be read, unless all callers that requested it were dropped.
    InFlight(WeakPendingBatch<Failure>),
}

impl<Reader: Send + Sync + 'static> BatchLoader<Reader> {
    /// Creates a loader that reads at most `max_batch` keys by one call of the reader.
    pub(crate) fn new(reader: Reader, max_batch: usize) -> Self {
        Self(Arc::new(Inner { reader, key_caches: Mutex::default(), max_batch }))
    }

    /// Returns the value of a key, or `None` if it has none.
    pub(crate) async fn load_one<Key>(&self, key: Key) -> Result<Option<Reader::Value>, Reader::Error>
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        let mut found = self.load_many([key.clone()]).await?;
        Ok(found.remove(&key))
    }

    /// Returns the values of several keys. Keys without a value are missing in the result.
    pub(crate) async fn load_many<Key>(
        &self,
        keys: impl IntoIterator<Item = Key>,
    ) -> Result<HashMap<Key, Reader::Value>, Reader::Error>
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        let keys: Vec<Key> = keys.into_iter().collect();
        let batches: Vec<_> = self.0.with_key_cache(|cache: &mut KeyCacheOf<Reader, Key>| {
            keys.iter().filter_map(|key| self.join_batch(cache, key)).collect()
        });
        try_join_all(batches).await?;
        Ok(self.0.with_key_cache(|cache: &mut KeyCacheOf<Reader, Key>| {
            let values = keys.into_iter().filter_map(|key| match cache.entries.get(&key)? {
                CacheEntry::Read(value) => Some((key, value.clone()?)),
                CacheEntry::InFlight(_) => None,
            });
            values.collect()
        }))
    }

    /// Adds values that were read by other means.
    pub(crate) fn insert_loaded<Key>(&self, values: impl IntoIterator<Item = (Key, Reader::Value)>)
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        self.0.with_key_cache(|cache: &mut KeyCacheOf<Reader, Key>| {
            let entries = values.into_iter().map(|(key, value)| (key, CacheEntry::Read(Some(value))));
            cache.entries.extend(entries);
        });
    }

    /// Adds the key to a batch and returns the batch. `None` if the key was read already.
    fn join_batch<Key>(
        &self,
        cache: &mut KeyCacheOf<Reader, Key>,
        key: &Key,
    ) -> Option<PendingBatch<Reader::Error>>
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        match cache.entries.get(key) {
            Some(CacheEntry::Read(_)) => return None,
            Some(CacheEntry::InFlight(batch)) => {
                if let Some(batch) = batch.upgrade() {
                    return Some(batch);
                }
            }
            None => {}
        }
        let next = cache.next.as_mut().and_then(|(keys, batch)| Some((keys, batch.upgrade()?)));
        let batch = if let Some((keys, batch)) = next {
            keys.push(key.clone());
            batch
        } else {
            let inner = Arc::clone(&self.0);
            let batch = async move { inner.read_next_batch::<Key>().await }.boxed().shared();
            cache.next = batch.downgrade().map(|weak_batch| (vec![key.clone()], weak_batch));
            batch
        };
        let entry = batch.downgrade().map(|weak_batch| (key.clone(), CacheEntry::InFlight(weak_batch)));
        cache.entries.extend(entry);
        Some(batch)
    }
}

type KeyCacheOf<Reader, Key> = KeyCache<Key, <Reader as Loader<Key>>::Value, <Reader as Loader<Key>>::Error>;

impl<Reader: Send + Sync + 'static> Inner<Reader> {
    fn with_key_cache<Key, T>(&self, access: impl FnOnce(&mut KeyCacheOf<Reader, Key>) -> T) -> T
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        // A poisoned cache is still consistent, because no change of it can panic before it is complete.
        let mut caches = self.key_caches.lock().unwrap_or_else(PoisonError::into_inner);
        let cache = caches
            .entry(TypeId::of::<Key>())
            .or_insert_with(|| Box::new(KeyCacheOf::<Reader, Key> { entries: HashMap::new(), next: None }));
        access(cache.downcast_mut().expect("each type of key has one type of cache"))
    }

    async fn read_next_batch<Key>(&self) -> Result<(), Reader::Error>
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        NextTick::default().await;
        let next = self.with_key_cache(|cache: &mut KeyCacheOf<Reader, Key>| mem::take(&mut cache.next));
        let keys = next.map(|(keys, _)| keys).unwrap_or_default();
        let reads = keys.chunks(self.max_batch).map(|keys| self.reader.load(keys));
        let outcome = try_join_all(reads).await;
        self.with_key_cache(|cache: &mut KeyCacheOf<Reader, Key>| match outcome {
            Ok(found) => {
                let mut found: HashMap<_, _> = found.into_iter().flatten().collect();
                for key in keys {
                    let value = found.remove(&key);
                    cache.entries.insert(key, CacheEntry::Read(value));
                }
                Ok(())
            }
            Err(failure) => {
                // A later request for the same keys may succeed.
                for key in keys {
                    cache.entries.remove(&key);
                }
                Err(failure)
            }
        })
    }
}

/// A future that is ready once all other runnable futures of the task were polled. Several futures poll
/// it while they wait for a batch; a future that only counted its polls would be ready at the second
/// poll, too early.
#[derive(Default)]
struct NextTick {
    signal: Option<Arc<TickSignal>>,
}

#[derive(Default)]
struct TickSignal {
    is_received: AtomicBool,
    task_waker: AtomicWaker,
}

impl Wake for TickSignal {
    fn wake(self: Arc<Self>) {
        self.is_received.store(true, Ordering::Release);
        self.task_waker.wake();
    }
}

impl Future for NextTick {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let signal = self.signal.get_or_insert_with(|| {
            let signal = Arc::<TickSignal>::default();
            // The runtime wakes a yielding future after it has polled the task.
            let waker = Waker::from(Arc::clone(&signal));
            let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&waker));
            signal
        });
        signal.task_waker.register(context.waker());
        if signal.is_received.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    /// A loader that doubles even numbers, fails for 13, and records the requested keys.
    #[derive(Default)]
    struct Doubler(Mutex<Vec<Vec<u32>>>);

    impl Loader<u32> for Doubler {
        type Value = u32;
        type Error = &'static str;

        async fn load(&self, keys: &[u32]) -> Result<HashMap<u32, u32>, Self::Error> {
            let mut requested = keys.to_vec();
            requested.sort_unstable();
            self.0.lock().expect("nobody panicked").push(requested);
            tokio::task::yield_now().await;
            if keys.contains(&13) {
                return Err("unlucky");
            }
            Ok(keys.iter().filter(|key| *key % 2 == 0).map(|key| (*key, 2 * key)).collect())
        }
    }

    fn take_recorded_batches(batches: &BatchLoader<Doubler>) -> Vec<Vec<u32>> {
        mem::take(&mut *batches.0.reader.0.lock().expect("nobody panicked"))
    }

    #[tokio::test]
    async fn what_is_asked_for_in_one_turn_is_read_together_and_once() {
        let batches = &BatchLoader::new(Doubler::default(), 100);
        let found = join_all((0..50).map(|key| async move {
            // Half of the keys are requested by separate futures, and all of them again one turn later.
            let first = batches.load_one(key % 10).await;
            let again = batches.load_many([key % 10, key % 10 + 1]).await.map(|found| found.len());
            (first, again)
        }))
        .await;
        assert_eq!(found[4], (Ok(Some(8)), Ok(1)));
        assert_eq!(found[5], (Ok(None), Ok(1)));
        assert_eq!(take_recorded_batches(batches), [(0..10).collect::<Vec<_>>(), vec![10]]);
    }

    #[tokio::test]
    async fn many_are_read_in_several_batches() {
        let batches = BatchLoader::new(Doubler::default(), 4);
        let found = batches.load_many((0..10).map(|key| 2 * key)).await.expect("they are fine");
        assert_eq!(found.len(), 10);
        assert_eq!(take_recorded_batches(&batches), [vec![0, 2, 4, 6], vec![8, 10, 12, 14], vec![16, 18]]);
    }

    #[tokio::test]
    async fn a_failure_is_told_to_all_and_not_remembered() {
        let batches = BatchLoader::new(Doubler::default(), 100);
        let (one, other) = tokio::join!(batches.load_one(13), batches.load_one(2));
        assert_eq!((one, other), (Err("unlucky"), Err("unlucky")));
        assert_eq!(batches.load_one(2).await, Ok(Some(4)));
        assert_eq!(take_recorded_batches(&batches), [vec![2, 13], vec![2]]);
    }

    #[tokio::test]
    async fn what_is_fed_is_not_read() {
        let batches = BatchLoader::new(Doubler::default(), 100);
        batches.insert_loaded([(2, 5)]);
        assert_eq!(batches.load_one(2).await, Ok(Some(5)));
        assert_eq!(take_recorded_batches(&batches), Vec::<Vec<u32>>::new());
    }

    #[tokio::test]
    async fn whoever_gives_up_leaves_the_others_what_they_asked_for() {
        let batches = BatchLoader::new(Doubler::default(), 100);
        let mut given_up = Box::pin(batches.load_one(2));
        assert!(futures::poll!(&mut given_up).is_pending());
        drop(given_up);
        assert_eq!(batches.load_one(2).await, Ok(Some(4)));
    }
}
