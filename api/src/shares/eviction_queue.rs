//! The order in which holders that wait for their client give way to others.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Notify;

/// The holders that wait for their client, the lowest number first.
#[derive(Debug, Default)]
pub(super) struct EvictionQueue {
    waiting: BTreeMap<u64, WaitingHolder>,
    numbers_by_address: HashMap<IpAddr, BTreeSet<u64>>,
}

#[derive(Debug)]
struct WaitingHolder {
    address: IpAddr,
    waiting_since: Instant,
    eviction: Arc<Notify>,
}

impl EvictionQueue {
    /// Adds a holder. `eviction` is notified when it has to give way.
    pub(super) fn insert(&mut self, number: u64, address: IpAddr, eviction: &Arc<Notify>) {
        let waiting =
            WaitingHolder { address, waiting_since: Instant::now(), eviction: Arc::clone(eviction) };
        self.waiting.insert(number, waiting);
        self.numbers_by_address.entry(address).or_default().insert(number);
    }

    /// Removes a holder that no longer waits.
    pub(super) fn remove(&mut self, number: u64) {
        self.take(number);
    }

    /// Returns the number of waiting holders at an address.
    pub(super) fn count_at(&self, address: IpAddr) -> usize {
        self.numbers_by_address.get(&address).map_or(0, BTreeSet::len)
    }

    /// Removes the first holder at an address, notifies it, and returns its number. `None` if no holder
    /// at the address waits.
    pub(super) fn evict_first_at(&mut self, address: IpAddr) -> Option<u64> {
        let number = *self.numbers_by_address.get(&address)?.first()?;
        self.evict(number)
    }

    /// Removes the first holder of all, notifies it, and returns its number. `None` if no holder waits.
    pub(super) fn evict_first(&mut self) -> Option<u64> {
        let number = *self.waiting.first_key_value()?.0;
        self.evict(number)
    }

    /// Returns the time for which the first holder has waited. `None` if no holder waits.
    pub(super) fn first_wait(&self) -> Option<Duration> {
        self.waiting.first_key_value().map(|(_, waiting)| waiting.waiting_since.elapsed())
    }

    fn evict(&mut self, number: u64) -> Option<u64> {
        self.take(number)?.eviction.notify_one();
        Some(number)
    }

    fn take(&mut self, number: u64) -> Option<WaitingHolder> {
        let waiting = self.waiting.remove(&number)?;
        if let Some(numbers) = self.numbers_by_address.get_mut(&waiting.address) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.numbers_by_address.remove(&waiting.address);
            }
        }
        Some(waiting)
    }
}
