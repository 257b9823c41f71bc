//! Fair shares of bounded resources: slots for reports, database connections, threads.
//!
//! This module owns the rule for slots. A holder is a credential of a user in an account, or unverified
//! credentials at an address. It may hold at most as many slots as are still free; all API tokens of its
//! user twice as many, all credentials of the user three times, and all of the account four times as many.
//! A single greedy holder therefore leaves half of the slots, a leaked token and those created with it leave
//! a third to the user's sessions, a user leaves a fourth to colleagues, and an account a fifth to other
//! accounts. The last free slot is for an account without any. One holder may hold all of up to three slots.
//! If all slots are taken, waiting requests take turns by account, then by user and then by credential: a
//! holder with a hundred waiting requests waits as long as a holder with one.
//!
//! Connections, and requests whose credentials are not verified, give way instead: see `connections.rs`
//! and `unverified.rs`.
//!
//! The module does not know the purpose of the slots. Other bounds in the server that have no shares are
//! listed with their reasons in `tests.rs`.

mod activity;
mod connections;
mod eviction_queue;
mod holder;
#[cfg(test)]
mod tests;
mod turns;
mod unverified;
mod work;

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use self::{
    activity::Activity,
    holder::{LEVELS, Level},
    turns::Turns,
};
pub(crate) use self::{
    connections::{BusyGuard, Connection, Connections},
    holder::{GroupMember, Holder},
    unverified::{UnverifiedSlot, UnverifiedSlots},
    work::{ClientWait, RequestSlot, RequestWork, acquire_thread, current_holder, wait_and_give_way},
};
use crate::metrics::{ResourceMetrics, ShareMetrics};

/// The number of slots from which the rule applies. One holder may hold all of fewer slots, because half of
/// them would be one slot.
const MIN_SHARED_SLOTS: usize = 4;

/// The error if no slot is available: the holder has its share, or the wait timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all that one may hold of it at a time is taken")]
pub(crate) struct Refused;

/// The factory of resources with fair shares. It holds their metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairShares {
    metrics: ShareMetrics,
}

impl FairShares {
    /// Creates a resource with this many slots.
    pub(crate) fn slots(&self, resource: &'static str, total: usize) -> Slots {
        self.create_slots(resource, Bounds { total, max_contended: total })
    }

    /// Creates a resource with this many slots, whose work competes for processors. While others are
    /// active, a holder has at most `max_contended` of them, and a user, an account or an address twice as
    /// many.
    pub(crate) fn work_slots(&self, resource: &'static str, total: usize, max_contended: usize) -> Slots {
        self.create_slots(resource, Bounds { total, max_contended: max_contended.max(1) })
    }

    fn create_slots(&self, resource: &'static str, bounds: Bounds) -> Slots {
        let metrics = self.metrics.register_resource(resource, bounds.total);
        Slots(Arc::new(Inner { bounds, metrics, state: Mutex::default() }))
    }

    /// Creates slots for connections, which are closed instead of rejected.
    pub(crate) fn connections(&self, resource: &'static str, limit: usize) -> Arc<Connections> {
        Connections::new(limit, self.metrics.register_resource(resource, limit))
    }

    /// Creates slots for unverified requests, which give way while they wait for their client.
    pub(crate) fn unverified(&self, resource: &'static str, limit: usize) -> UnverifiedSlots {
        UnverifiedSlots::new(limit, self.metrics.register_resource(resource, limit))
    }

    /// Returns the metrics of all resources.
    pub(crate) fn metrics(&self) -> &ShareMetrics {
        &self.metrics
    }
}

/// The slots of one resource.
#[derive(Clone)]
pub(crate) struct Slots(Arc<Inner>);

struct Inner {
    bounds: Bounds,
    metrics: ResourceMetrics,
    state: Mutex<State>,
}

/// The bounds of a resource.
#[derive(Clone, Copy)]
struct Bounds {
    total: usize,
    /// The maximum number of slots of one holder while others are active.
    max_contended: usize,
}

/// The holders and the waiting requests.
#[derive(Default)]
struct State {
    /// The recent requests, by the rank of their level.
    activity: [Activity<Level>; LEVELS],
    /// The number of slots that are held.
    held: usize,
    /// The number of slots that each level holds.
    held_by_level: HashMap<Level, usize>,
    waiting: Turns,
}

impl Slots {
    /// Returns a slot if one is available to the holder now.
    pub(crate) fn try_take(&self, holder: Holder) -> Result<HeldSlot, Refused> {
        let mut state = self.lock_state();
        state.record_request(holder);
        if state.may_take(holder, self.0.bounds) {
            state.hold(holder);
            self.0.metrics.count_taken();
            Ok(self.held_slot(holder))
        } else {
            self.0.metrics.count_refused();
            Err(Refused)
        }
    }

    /// Waits for a slot, for at most `time_limit`. Returns an error after that time, or if the holder has
    /// too many waiting requests.
    pub(crate) async fn take(&self, holder: Holder, time_limit: Duration) -> Result<HeldSlot, Refused> {
        let grant_receiver = {
            let mut state = self.lock_state();
            state.record_request(holder);
            if state.may_take(holder, self.0.bounds) {
                state.hold(holder);
                self.0.metrics.count_taken();
                return Ok(self.held_slot(holder));
            }
            state.waiting.queue(holder)
        };
        let granted_slot = match grant_receiver {
            Some(receiver) => tokio::time::timeout(time_limit, receiver).await.ok().and_then(Result::ok),
            None => None,
        };
        granted_slot.ok_or_else(|| {
            self.0.metrics.count_refused();
            Refused
        })
    }

    /// Returns true if all slots are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.lock_state().held >= self.0.bounds.total
    }

    /// Returns true if a slot is available to the holder now.
    pub(crate) fn can_take(&self, holder: Holder) -> bool {
        self.lock_state().may_take(holder, self.0.bounds)
    }

    /// Returns an error, and counts a refusal, if all slots are taken.
    pub(crate) fn check_free(&self) -> Result<(), Refused> {
        self.refuse_unless(!self.is_full())
    }

    /// Returns an error, and counts a refusal, if no slot is available to the holder now.
    pub(crate) fn check_available(&self, holder: Holder) -> Result<(), Refused> {
        self.refuse_unless(self.can_take(holder))
    }

    fn refuse_unless(&self, is_free: bool) -> Result<(), Refused> {
        if !is_free {
            self.0.metrics.count_refused();
            return Err(Refused);
        }
        Ok(())
    }

    fn held_slot(&self, holder: Holder) -> HeldSlot {
        HeldSlot { slots: self.clone(), holder, is_released: false }
    }

    /// Grants free slots to the waiting requests that may take them.
    fn grant_free_slots(&self, state: &mut State) {
        while let Some((holder, sender)) = state.next(self.0.bounds) {
            state.hold(holder);
            self.0.metrics.count_taken();
            if let Err(mut slot) = sender.send(self.held_slot(holder)) {
                // The waiting request was cancelled. Dropping its slot must not release it again: it would
                // wait forever for the lock that is held here.
                slot.is_released = true;
                self.release(state, holder);
            }
        }
    }

    fn release(&self, state: &mut State, holder: Holder) {
        state.release_holder(holder);
        self.0.metrics.count_released();
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records that the holder requests a slot. The server's own work is no activity of its account.
    fn record_request(&mut self, holder: Holder) {
        if !holder.is_server() {
            let now = Instant::now();
            for (activity, level) in self.activity.iter_mut().zip(holder.levels()) {
                activity.record(level, now);
            }
        }
    }

    /// Returns true if the holder may take a slot.
    fn may_take(&self, holder: Holder, Bounds { total, max_contended }: Bounds) -> bool {
        let (free, now) = (total.saturating_sub(self.held), Instant::now());
        let levels = holder.levels();
        let is_divided = total >= MIN_SHARED_SLOTS;
        let may_take_last = !is_divided || self.count(levels[LEVELS - 1]) == 0;
        let may_take_at = |rank: usize| {
            let (held, level) = (self.count(levels[rank]), levels[rank]);
            let max_at_level = if rank == 0 { max_contended } else { 2 * max_contended };
            (!is_divided || held < (rank + 1) * free)
                && (held < max_at_level || !self.activity[rank].includes_others(level, now))
        };
        free > 0 && (free > 1 || may_take_last) && (0..LEVELS).all(may_take_at)
    }

    fn count(&self, level: Level) -> usize {
        self.held_by_level.get(&level).copied().unwrap_or_default()
    }

    fn hold(&mut self, holder: Holder) {
        self.held += 1;
        for level in holder.distinct_levels() {
            *self.held_by_level.entry(level).or_default() += 1;
        }
    }

    fn release_holder(&mut self, holder: Holder) {
        self.held -= 1;
        for level in holder.distinct_levels() {
            decrement(&mut self.held_by_level, level);
        }
    }

    /// Removes the next waiting request that may take a slot.
    fn next(&mut self, bounds: Bounds) -> Option<(Holder, oneshot::Sender<HeldSlot>)> {
        if self.held >= bounds.total {
            return None;
        }
        let mut waiting = mem::take(&mut self.waiting);
        let next = waiting.next(&|holder| self.may_take(holder, bounds));
        self.waiting = waiting;
        next
    }
}

fn decrement<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// A held slot. Dropping it releases the slot.
pub(crate) struct HeldSlot {
    slots: Slots,
    holder: Holder,
    is_released: bool,
}

impl HeldSlot {
    /// Returns the holder.
    fn holder(&self) -> Holder {
        self.holder
    }

    /// Transfers the slot to another holder. Returns an error, and keeps the holder, if the other has
    /// its share.
    pub(crate) fn transfer_to(&mut self, holder: Holder) -> Result<(), Refused> {
        if holder == self.holder {
            return Ok(());
        }
        let mut state = self.slots.lock_state();
        state.release_holder(self.holder);
        if state.may_take(holder, self.slots.0.bounds) {
            state.hold(holder);
            self.holder = holder;
            self.slots.grant_free_slots(&mut state);
            Ok(())
        } else {
            state.hold(self.holder);
            self.slots.0.metrics.count_refused();
            Err(Refused)
        }
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        let mut state = self.slots.lock_state();
        self.slots.release(&mut state, self.holder);
        self.slots.grant_free_slots(&mut state);
    }
}
