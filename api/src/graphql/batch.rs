//! What the fields of one request ask for, read together.
//!
//! The executor's own loader waits a millisecond on a timer for others that ask for the like, and reads in tasks of
//! their own. A request is resolved in one task: when that has been once round, everybody who could ask has asked.
//! So the reading waits for one turn of the task, and is done in it.

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

/// Reads by keys, together and once.
pub(super) struct Batches<Reader>(Arc<Inner<Reader>>);

struct Inner<Reader> {
    reader: Reader,
    /// A [`Shelf`] for each type of keys.
    shelves: Mutex<HashMap<TypeId, Box<dyn Any + Send>>>,
    max_batch: usize,
}

/// The outcome of reading a batch, for all who wait for it; what was found is in the shelf. It goes on as long as
/// somebody waits, so nothing here keeps it.
type Reading<Failure> = Shared<BoxFuture<'static, Result<(), Failure>>>;
type Going<Failure> = WeakShared<BoxFuture<'static, Result<(), Failure>>>;

/// What is known of keys of one type.
struct Shelf<Key, Value, Failure: Clone> {
    places: HashMap<Key, Place<Value, Failure>>,
    /// The keys of the batch that is to be read next.
    next: Option<(Vec<Key>, Going<Failure>)>,
}

enum Place<Value, Failure: Clone> {
    /// It was read, and found or not.
    Read(Option<Value>),
    /// It will be read, unless everybody who asked has given up.
    Coming(Going<Failure>),
}

impl<Reader: Send + Sync + 'static> Batches<Reader> {
    /// Reads at most `max_batch` keys by one call of the reader.
    pub(super) fn new(reader: Reader, max_batch: usize) -> Self {
        Self(Arc::new(Inner { reader, shelves: Mutex::default(), max_batch }))
    }

    /// What there is for a key.
    pub(super) async fn load_one<Key>(&self, key: Key) -> Result<Option<Reader::Value>, Reader::Error>
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        let mut found = self.load_many([key.clone()]).await?;
        Ok(found.remove(&key))
    }

    /// What there is for some keys.
    pub(super) async fn load_many<Key>(
        &self,
        keys: impl IntoIterator<Item = Key>,
    ) -> Result<HashMap<Key, Reader::Value>, Reader::Error>
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        let keys: Vec<Key> = keys.into_iter().collect();
        let readings: Vec<_> = self.0.with_shelf(|known: &mut ShelfOf<Reader, Key>| {
            keys.iter().filter_map(|key| self.reading(known, key)).collect()
        });
        try_join_all(readings).await?;
        Ok(self.0.with_shelf(|known: &mut ShelfOf<Reader, Key>| {
            let known = keys.into_iter().filter_map(|key| match known.places.get(&key)? {
                Place::Read(value) => Some((key, value.clone()?)),
                Place::Coming(_) => None,
            });
            known.collect()
        }))
    }

    /// Takes note of what was read by other means.
    pub(super) fn feed<Key>(&self, values: impl IntoIterator<Item = (Key, Reader::Value)>)
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        self.0.with_shelf(|known: &mut ShelfOf<Reader, Key>| {
            let read = values.into_iter().map(|(key, value)| (key, Place::Read(Some(value))));
            known.places.extend(read);
        });
    }

    /// What has to be waited for before the key is known; nothing if it is.
    fn reading<Key>(&self, known: &mut ShelfOf<Reader, Key>, key: &Key) -> Option<Reading<Reader::Error>>
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        match known.places.get(key) {
            Some(Place::Read(_)) => return None,
            Some(Place::Coming(going)) => {
                if let Some(reading) = going.upgrade() {
                    return Some(reading);
                }
            }
            None => {}
        }
        let next = known.next.as_mut().and_then(|(keys, going)| Some((keys, going.upgrade()?)));
        let reading = if let Some((keys, reading)) = next {
            keys.push(key.clone());
            reading
        } else {
            let inner = Arc::clone(&self.0);
            let reading = async move { inner.read_next::<Key>().await }.boxed().shared();
            known.next = reading.downgrade().map(|going| (vec![key.clone()], going));
            reading
        };
        let coming = reading.downgrade().map(|going| (key.clone(), Place::Coming(going)));
        known.places.extend(coming);
        Some(reading)
    }
}

type ShelfOf<Reader, Key> = Shelf<Key, <Reader as Loader<Key>>::Value, <Reader as Loader<Key>>::Error>;

impl<Reader: Send + Sync + 'static> Inner<Reader> {
    fn with_shelf<Key, T>(&self, look: impl FnOnce(&mut ShelfOf<Reader, Key>) -> T) -> T
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        // Nothing in here panics half-way.
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shelves
            .entry(TypeId::of::<Key>())
            .or_insert_with(|| Box::new(ShelfOf::<Reader, Key> { places: HashMap::new(), next: None }));
        look(known.downcast_mut().expect("a type of keys has one type of shelf"))
    }

    async fn read_next<Key>(&self) -> Result<(), Reader::Error>
    where
        Key: Clone + Eq + Hash + Send + Sync + 'static,
        Reader: Loader<Key, Error: Sync>,
    {
        Turn::default().await;
        let next = self.with_shelf(|known: &mut ShelfOf<Reader, Key>| mem::take(&mut known.next));
        let keys = next.map(|(keys, _)| keys).unwrap_or_default();
        let batches = keys.chunks(self.max_batch).map(|keys| self.reader.load(keys));
        let read = try_join_all(batches).await;
        self.with_shelf(|known: &mut ShelfOf<Reader, Key>| match read {
            Ok(found) => {
                let mut found: HashMap<_, _> = found.into_iter().flatten().collect();
                for key in keys {
                    let value = found.remove(&key);
                    known.places.insert(key, Place::Read(value));
                }
                Ok(())
            }
            Err(failure) => {
                // Whoever asks again may have more luck.
                for key in keys {
                    known.places.remove(&key);
                }
                Err(failure)
            }
        })
    }
}

/// Over when everything else in the task that could go on has. All who wait for a batch look after it, and a future
/// that only counts how often it was looked at would be over with the second of them.
#[derive(Default)]
struct Turn {
    over: Option<Arc<Over>>,
}

#[derive(Default)]
struct Over {
    over: AtomicBool,
    waiting: AtomicWaker,
}

impl Wake for Over {
    fn wake(self: Arc<Self>) {
        self.over.store(true, Ordering::Release);
        self.waiting.wake();
    }
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let over = self.over.get_or_insert_with(|| {
            let over = Arc::<Over>::default();
            // The runtime wakes what yields when the task has been polled.
            let waker = Waker::from(Arc::clone(&over));
            let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&waker));
            over
        });
        over.waiting.register(context.waker());
        if over.over.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    /// Doubles even numbers, refuses 13, and writes down what it was asked.
    #[derive(Default)]
    struct Doubler(Mutex<Vec<Vec<u32>>>);

    impl Loader<u32> for Doubler {
        type Value = u32;
        type Error = &'static str;

        async fn load(&self, keys: &[u32]) -> Result<HashMap<u32, u32>, Self::Error> {
            let mut asked = keys.to_vec();
            asked.sort_unstable();
            self.0.lock().expect("nobody panicked").push(asked);
            tokio::task::yield_now().await;
            if keys.contains(&13) {
                return Err("unlucky");
            }
            Ok(keys.iter().filter(|key| *key % 2 == 0).map(|key| (*key, 2 * key)).collect())
        }
    }

    fn asked(batches: &Batches<Doubler>) -> Vec<Vec<u32>> {
        mem::take(&mut *batches.0.reader.0.lock().expect("nobody panicked"))
    }

    #[tokio::test]
    async fn what_is_asked_for_in_one_turn_is_read_together_and_once() {
        let batches = &Batches::new(Doubler::default(), 100);
        let found = join_all((0..50).map(|key| async move {
            // Half of them in futures of their own, and all of them again a turn later.
            let first = batches.load_one(key % 10).await;
            let again = batches.load_many([key % 10, key % 10 + 1]).await.map(|found| found.len());
            (first, again)
        }))
        .await;
        assert_eq!(found[4], (Ok(Some(8)), Ok(1)));
        assert_eq!(found[5], (Ok(None), Ok(1)));
        assert_eq!(asked(batches), [(0..10).collect::<Vec<_>>(), vec![10]]);
    }

    #[tokio::test]
    async fn many_are_read_in_several_batches() {
        let batches = Batches::new(Doubler::default(), 4);
        let found = batches.load_many((0..10).map(|key| 2 * key)).await.expect("they are fine");
        assert_eq!(found.len(), 10);
        assert_eq!(asked(&batches), [vec![0, 2, 4, 6], vec![8, 10, 12, 14], vec![16, 18]]);
    }

    #[tokio::test]
    async fn a_failure_is_told_to_all_and_not_remembered() {
        let batches = Batches::new(Doubler::default(), 100);
        let (one, other) = tokio::join!(batches.load_one(13), batches.load_one(2));
        assert_eq!((one, other), (Err("unlucky"), Err("unlucky")));
        assert_eq!(batches.load_one(2).await, Ok(Some(4)));
        assert_eq!(asked(&batches), [vec![2, 13], vec![2]]);
    }

    #[tokio::test]
    async fn what_is_fed_is_not_read() {
        let batches = Batches::new(Doubler::default(), 100);
        batches.feed([(2, 5)]);
        assert_eq!(batches.load_one(2).await, Ok(Some(5)));
        assert_eq!(asked(&batches), Vec::<Vec<u32>>::new());
    }

    #[tokio::test]
    async fn whoever_gives_up_leaves_the_others_what_they_asked_for() {
        let batches = Batches::new(Doubler::default(), 100);
        let mut given_up = Box::pin(batches.load_one(2));
        assert!(futures::poll!(&mut given_up).is_pending());
        drop(given_up);
        assert_eq!(batches.load_one(2).await, Ok(Some(4)));
    }
}
