//! Slots for connections. The purpose of a connection is known only after its first request. A
//! connection that waits for a request therefore gives way instead of new ones being rejected: first one
//! of an address beyond its share, and if no slot is free, the one that has waited longest.
//!
//! A connection never gives way while a request is in progress. Concurrent requests are bounded
//! elsewhere, by client, and to fewer than the connections.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::eviction_queue::EvictionQueue;
use crate::metrics::ResourceMetrics;

/// The time a connection may wait for its client before it gives way to a new one.
const GRACE: Duration = Duration::from_secs(1);

/// The open connections and their limit.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    metrics: ResourceMetrics,
    table: Mutex<Table>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Table {
    open: usize,
    /// The latest number of a waiting connection.
    latest_number: u64,
    /// The connections that wait for their client, in the order in which they started to wait.
    waiting: EvictionQueue,
}

impl Connections {
    pub(super) fn new(limit: usize, metrics: ResourceMetrics) -> Arc<Self> {
        Arc::new(Self { limit, metrics, table: Mutex::default(), ended: Notify::new() })
    }

    /// Waits until a new connection would find a slot, or an open one could give way.
    pub(crate) async fn wait_for_slot(&self) {
        loop {
            let ended = self.ended.notified();
            let retry_after = {
                let table = self.lock_table();
                if table.open < self.limit {
                    return;
                }
                table.oldest_remaining_grace()
            };
            match retry_after {
                None => return,
                Some(retry_after) => tokio::select! {
                    () = ended => {}
                    () = tokio::time::sleep(retry_after) => {}
                },
            }
        }
    }

    /// Waits for a slot and gives it to a connection from `address`. `is_limited` is true if the address
    /// belongs to a single client, unlike that of a proxy.
    pub(crate) async fn admit(self: &Arc<Self>, address: IpAddr, is_limited: bool) -> Connection {
        loop {
            let ended = self.ended.notified();
            let retry_after = {
                let mut table = self.lock_table();
                let free = self.limit.saturating_sub(table.open);
                if free > 0 {
                    let waiting = table.waiting.count_at(address);
                    // Leaves a fourth of the slots that such addresses can hold.
                    if is_limited && waiting > 0 && waiting >= 3 * free {
                        self.metrics.count_refused();
                        table.waiting.evict_first_at(address);
                    }
                    table.open += 1;
                    self.metrics.count_taken();
                    let eviction = Arc::new(Notify::new());
                    let number = table.wait(address, &eviction);
                    let state = Mutex::new(State { busy: 0, number: Some(number) });
                    return Connection(Arc::new(ConnectionSlot {
                        connections: Arc::clone(self),
                        address,
                        eviction,
                        state,
                    }));
                }
                let retry_after = table.oldest_remaining_grace();
                if retry_after.is_none() {
                    self.metrics.count_refused();
                    table.waiting.evict_first();
                }
                retry_after.unwrap_or(GRACE)
            };
            tokio::select! {
                () = ended => {}
                () = tokio::time::sleep(retry_after) => {}
            }
        }
    }

    /// Waits until no connection is open.
    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.lock_table().open == 0 {
                return;
            }
            ended.await;
        }
    }

    fn lock_table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn wait(&mut self, address: IpAddr, eviction: &Arc<Notify>) -> u64 {
        self.latest_number += 1;
        self.waiting.insert(self.latest_number, address, eviction);
        self.latest_number
    }

    /// Returns the remaining grace period of the connection that has waited longest. `None` if it has
    /// passed.
    fn oldest_remaining_grace(&self) -> Option<Duration> {
        let Some(waited) = self.waiting.first_wait() else { return Some(GRACE) };
        GRACE.checked_sub(waited).filter(|remaining| !remaining.is_zero())
    }
}

/// A connection with a slot. Dropping the last clone releases the slot.
#[derive(Clone, Debug)]
pub(crate) struct Connection(Arc<ConnectionSlot>);

#[derive(Debug)]
struct ConnectionSlot {
    connections: Arc<Connections>,
    address: IpAddr,
    eviction: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The number of requests in progress.
    busy: usize,
    /// The connection's number among the waiting ones. `None` while it is busy.
    number: Option<u64>,
}

impl Connection {
    /// Waits until the connection has to close, because others need its slot.
    pub(crate) async fn wait_for_eviction(&self) {
        loop {
            self.0.eviction.notified().await;
            // A request may have arrived at the same moment.
            if self.0.state().busy == 0 {
                return;
            }
        }
    }

    /// Marks the connection as busy until the result is dropped.
    pub(crate) fn mark_busy(&self) -> BusyGuard {
        let mut state = self.0.state();
        state.busy += 1;
        if let Some(number) = state.number.take() {
            self.0.connections.lock_table().waiting.remove(number);
        }
        drop(state);
        BusyGuard(Arc::clone(&self.0))
    }
}

impl ConnectionSlot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let number = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).number;
        let mut table = self.connections.lock_table();
        table.open -= 1;
        if let Some(number) = number {
            table.waiting.remove(number);
        }
        drop(table);
        self.connections.metrics.count_released();
        self.connections.ended.notify_waiters();
    }
}

/// A request in progress on a connection.
#[derive(Debug)]
pub(crate) struct BusyGuard(Arc<ConnectionSlot>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.busy -= 1;
        if state.busy == 0 {
            state.number = Some(self.0.connections.lock_table().wait(self.0.address, &self.0.eviction));
        }
    }
}
