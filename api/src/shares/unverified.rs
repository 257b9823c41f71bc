//! Slots for requests whose credentials are not verified. Anybody can send such requests, with other
//! credentials each time, so only the address tells their clients apart.
//!
//! A request that waits for its client can be evicted to admit a new one. If the address of the new request
//! has reached its share, the oldest waiting request of that address is evicted. If no slot is free and the
//! address holds none, the oldest of all is evicted, however often its client sends a byte. The server's own
//! work for a request is never interrupted. It is short, so clients that send their credentials are
//! verified even among many that stay silent.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{Refused, decrement, eviction_queue::EvictionQueue};
use crate::metrics::ResourceMetrics;

/// The slots of one kind of unverified requests.
#[derive(Clone, Debug)]
pub(crate) struct UnverifiedSlots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: usize,
    metrics: ResourceMetrics,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The number of the latest request.
    latest_number: u64,
    /// The addresses of the requests with a slot, by the number of the request.
    held: HashMap<u64, IpAddr>,
    /// The number of slots of each address.
    held_by_address: HashMap<IpAddr, usize>,
    waiting: EvictionQueue,
}

impl UnverifiedSlots {
    pub(super) fn new(limit: usize, metrics: ResourceMetrics) -> Self {
        Self(Arc::new(Inner { limit, metrics, table: Mutex::default() }))
    }

    /// Takes a slot for a request from `address`. Another request may have to give way for it. Returns
    /// an error if none can.
    pub(crate) fn try_take(&self, address: IpAddr) -> Result<UnverifiedSlot, Refused> {
        let mut table = self.lock_table();
        let free = self.0.limit.saturating_sub(table.held.len());
        let held = table.held_by_address.get(&address).copied().unwrap_or_default();
        // An address may hold three times as many slots as are free, so a fourth of them stays free.
        if free == 0 || (held > 0 && held >= 3 * free) {
            self.0.metrics.count_refused();
            let evicted =
                if held > 0 { table.waiting.evict_first_at(address) } else { table.waiting.evict_first() };
            table.release(evicted.ok_or(Refused)?);
            self.0.metrics.count_released();
        }
        self.0.metrics.count_taken();
        table.latest_number += 1;
        let number = table.latest_number;
        table.held.insert(number, address);
        *table.held_by_address.entry(address).or_default() += 1;
        Ok(UnverifiedSlot { slots: self.clone(), number, address, eviction: Arc::default() })
    }

    fn lock_table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Releases the slot of a request. Returns false if the request was evicted before.
    fn release(&mut self, number: u64) -> bool {
        let Some(address) = self.held.remove(&number) else { return false };
        decrement(&mut self.held_by_address, address);
        true
    }
}

/// The slot of an unverified request. Dropping it releases the slot.
#[derive(Debug)]
pub(crate) struct UnverifiedSlot {
    slots: UnverifiedSlots,
    number: u64,
    address: IpAddr,
    eviction: Arc<Notify>,
}

impl UnverifiedSlot {
    /// Returns the notification that the request may have lost its slot.
    pub(super) fn eviction(&self) -> Arc<Notify> {
        Arc::clone(&self.eviction)
    }

    /// Returns true if the request has lost its slot.
    pub(super) fn is_evicted(&self) -> bool {
        !self.slots.lock_table().held.contains_key(&self.number)
    }

    /// Records that the request waits for its client, and may have to give way.
    pub(super) fn begin_wait(&self) {
        let mut table = self.slots.lock_table();
        if table.held.contains_key(&self.number) {
            table.waiting.insert(self.number, self.address, &self.eviction);
        }
    }

    /// Records that the request no longer waits for its client.
    pub(super) fn end_wait(&self) {
        self.slots.lock_table().waiting.remove(self.number);
    }
}

impl Drop for UnverifiedSlot {
    fn drop(&mut self) {
        let mut table = self.slots.lock_table();
        table.waiting.remove(self.number);
        if table.release(self.number) {
            self.slots.0.metrics.count_released();
        }
    }
}
