//! Slots for requests whose credentials are not verified. Anybody can send such requests, with other
//! credentials each time, so only the address tells their clients apart.
//!
//! A request that waits for its client can be evicted to admit a new one. If the address of the new request
//! has reached its share, the oldest waiting request of that address is evicted. If no slot is free and the
//! address holds none, the oldest of all is evicted, however often its client sends a byte. The server's own
//! work for a request is never interrupted. It takes a moment, so clients that send their credentials are
//! verified even among many that stay silent.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{Refused, eviction_queue::EvictionQueue, one_less};
use crate::metrics::ShareCounts;

/// The slots of one kind of unverified requests.
#[derive(Clone, Debug)]
pub(crate) struct UnverifiedSlots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    all: usize,
    counts: ShareCounts,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The number of the latest request.
    number: u64,
    /// The addresses of the requests with a slot.
    held: HashMap<u64, IpAddr>,
    /// The number of slots of each address.
    addresses: HashMap<IpAddr, usize>,
    waiting: EvictionQueue,
}

impl UnverifiedSlots {
    pub(super) fn new(all: usize, counts: ShareCounts) -> Self {
        Self(Arc::new(Inner { all, counts, table: Mutex::default() }))
    }

    /// Takes a slot for a request from `address`. Another request may have to give way for it. Returns
    /// an error if none can.
    pub(crate) fn try_take(&self, address: IpAddr) -> Result<UnverifiedSlot, Refused> {
        let mut table = self.table();
        let free = self.0.all.saturating_sub(table.held.len());
        let held = table.addresses.get(&address).copied().unwrap_or_default();
        // Leaves a fourth of the slots that an address can hold.
        if free == 0 || (held > 0 && held >= 3 * free) {
            self.0.counts.refused();
            let evicted =
                if held > 0 { table.waiting.evict_first_of(address) } else { table.waiting.evict_first() };
            table.release(evicted.ok_or(Refused)?);
            self.0.counts.returned();
        }
        self.0.counts.took();
        table.number += 1;
        let number = table.number;
        table.held.insert(number, address);
        *table.addresses.entry(address).or_default() += 1;
        Ok(UnverifiedSlot { of: self.clone(), number, address, gives_way: Arc::default() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Releases the slot of a request. Returns false if the request has given way before.
    fn release(&mut self, number: u64) -> bool {
        let Some(address) = self.held.remove(&number) else { return false };
        one_less(&mut self.addresses, address);
        true
    }
}

/// The slot of an unverified request. Dropping it releases the slot.
#[derive(Debug)]
pub(crate) struct UnverifiedSlot {
    of: UnverifiedSlots,
    number: u64,
    address: IpAddr,
    gives_way: Arc<Notify>,
}

impl UnverifiedSlot {
    /// Returns the notification that the request may have lost its slot.
    pub(super) fn gives_way(&self) -> Arc<Notify> {
        Arc::clone(&self.gives_way)
    }

    /// Returns true if the request has lost its slot.
    pub(super) fn is_evicted(&self) -> bool {
        !self.of.table().held.contains_key(&self.number)
    }

    /// Records that the request waits for its client, and may have to give way.
    pub(super) fn begin_wait(&self) {
        let mut table = self.of.table();
        if table.held.contains_key(&self.number) {
            table.waiting.insert(self.number, self.address, &self.gives_way);
        }
    }

    /// Records that the request no longer waits for its client.
    pub(super) fn end_wait(&self) {
        self.of.table().waiting.remove(self.number);
    }
}

impl Drop for UnverifiedSlot {
    fn drop(&mut self) {
        let mut table = self.of.table();
        table.waiting.remove(self.number);
        if table.release(self.number) {
            self.of.0.counts.returned();
        }
    }
}
