//! Fair shares of bounded resources: slots for reports, database connections, threads.
//!
//! This module owns the rule for slots. A holder is a credential of a user in an account, or unverified
//! credentials at an address. It may hold at most as many slots as are still free; all API tokens of its
//! user twice as many, all credentials of the user three times, and all of the account four times as many.
//! A single greedy holder therefore leaves half of the slots, a leaked token and those created with it leave
//! a third to the user's sessions, a user leaves a fourth to colleagues, and an account a fifth to other
//! accounts. The last free slot is for an account without any. Up to three slots may all be held by one. If
//! all slots are taken, waiting requests take turns by account, then by user and then by credential: a
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
    holder::{Holder, Member},
    unverified::{UnverifiedSlot, UnverifiedSlots},
    work::{ClientWait, RequestSlot, RequestWork, acquire_thread, current_holder, wait_and_give_way},
};
use crate::metrics::{ShareCounts, ShareMetrics};

/// The number of slots from which the rule applies. Fewer slots are first come, first served: half of
/// them would be one.
const DIVISIBLE: usize = 4;

/// The error if no slot is available: the holder has its share, or the wait timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all that one may hold of it at a time is taken")]
pub(crate) struct Refused;

/// The factory of resources with fair shares, with their metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct FairShares {
    metrics: ShareMetrics,
}

impl FairShares {
    /// Creates a resource with this many slots.
    pub(crate) fn places(&self, resource: &'static str, all: usize) -> Slots {
        self.slots(resource, Bounds { all, contended: all })
    }

    /// Creates a resource with this many slots, whose work competes for processors. While others are
    /// active, a holder has at most `contended` of them, and a user, an account or an address twice as many.
    pub(crate) fn places_for_work(&self, resource: &'static str, all: usize, contended: usize) -> Slots {
        self.slots(resource, Bounds { all, contended: contended.max(1) })
    }

    fn slots(&self, resource: &'static str, bounds: Bounds) -> Slots {
        let counts = self.metrics.resource(resource, bounds.all);
        Slots(Arc::new(Inner { bounds, counts, state: Mutex::default() }))
    }

    /// Creates slots for connections, which are closed instead of rejected.
    pub(crate) fn connections(&self, resource: &'static str, all: usize) -> Arc<Connections> {
        Connections::new(all, self.metrics.resource(resource, all))
    }

    /// Creates slots for unverified requests, which give way while they wait for their client.
    pub(crate) fn unverified(&self, resource: &'static str, all: usize) -> UnverifiedSlots {
        UnverifiedSlots::new(all, self.metrics.resource(resource, all))
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
    counts: ShareCounts,
    state: Mutex<State>,
}

/// The bounds of a resource.
#[derive(Clone, Copy)]
struct Bounds {
    all: usize,
    /// The maximum number of slots of one holder while others are active.
    contended: usize,
}

/// The holders and the waiting requests.
#[derive(Default)]
struct State {
    /// The recent requests, by level.
    active: [Activity<Level>; LEVELS],
    held: usize,
    counts: HashMap<Level, usize>,
    waiting: Turns,
}

impl Slots {
    /// Returns a slot if one is available to the holder now.
    pub(crate) fn try_take(&self, holder: Holder) -> Result<HeldSlot, Refused> {
        let mut state = self.state();
        state.record_request(holder);
        if state.may_take(holder, self.0.bounds) {
            state.hold(holder);
            self.0.counts.took();
            Ok(self.place(holder))
        } else {
            self.0.counts.refused();
            Err(Refused)
        }
    }

    /// Waits for a slot, for at most `patience`. Returns an error after that time, or if the holder has
    /// too many waiting requests.
    pub(crate) async fn take(&self, holder: Holder, patience: Duration) -> Result<HeldSlot, Refused> {
        let turn = {
            let mut state = self.state();
            state.record_request(holder);
            if state.may_take(holder, self.0.bounds) {
                state.hold(holder);
                self.0.counts.took();
                return Ok(self.place(holder));
            }
            state.waiting.queue(holder)
        };
        let given = match turn {
            Some(turn) => tokio::time::timeout(patience, turn).await.ok().and_then(Result::ok),
            None => None,
        };
        given.ok_or_else(|| {
            self.0.counts.refused();
            Refused
        })
    }

    /// Returns true if all slots are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.state().held >= self.0.bounds.all
    }

    /// Returns true if a slot is available to the holder now.
    pub(crate) fn would_take(&self, holder: Holder) -> bool {
        self.state().may_take(holder, self.0.bounds)
    }

    fn place(&self, holder: Holder) -> HeldSlot {
        HeldSlot { of: self.clone(), holder, is_returned: false }
    }

    /// Gives free slots to the waiting requests that may have them.
    fn grant_free_slots(&self, state: &mut State) {
        while let Some((holder, sender)) = state.next(self.0.bounds) {
            state.hold(holder);
            self.0.counts.took();
            if let Err(mut place) = sender.send(self.place(holder)) {
                // The waiting request is gone. Its slot must not be released on drop, because that would
                // wait for the lock held here.
                place.is_returned = true;
                self.release(state, holder);
            }
        }
    }

    fn release(&self, state: &mut State, holder: Holder) {
        state.release_holder(holder);
        self.0.counts.returned();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records that the holder asks for a slot. The server's own work is no activity of its account.
    fn record_request(&mut self, holder: Holder) {
        if !holder.is_server() {
            let now = Instant::now();
            for (active, level) in self.active.iter_mut().zip(holder.levels()) {
                active.record(level, now);
            }
        }
    }

    /// Returns true if the holder may take a slot.
    fn may_take(&self, holder: Holder, Bounds { all, contended }: Bounds) -> bool {
        let (free, now) = (all.saturating_sub(self.held), Instant::now());
        let levels = holder.levels();
        let is_divided = all >= DIVISIBLE;
        let may_take_last = !is_divided || self.count(levels[LEVELS - 1]) == 0;
        let may_take_at = |rank: usize| {
            let (held, level) = (self.count(levels[rank]), levels[rank]);
            let contended = if rank == 0 { contended } else { 2 * contended };
            (!is_divided || held < (rank + 1) * free)
                && (held < contended || !self.active[rank].includes_others(level, now))
        };
        free > 0 && (free > 1 || may_take_last) && (0..LEVELS).all(may_take_at)
    }

    fn count(&self, level: Level) -> usize {
        self.counts.get(&level).copied().unwrap_or_default()
    }

    fn hold(&mut self, holder: Holder) {
        self.held += 1;
        for level in holder.distinct_levels() {
            *self.counts.entry(level).or_default() += 1;
        }
    }

    fn release_holder(&mut self, holder: Holder) {
        self.held -= 1;
        for level in holder.distinct_levels() {
            one_less(&mut self.counts, level);
        }
    }

    /// Removes the next waiting request that may have a slot.
    fn next(&mut self, bounds: Bounds) -> Option<(Holder, oneshot::Sender<HeldSlot>)> {
        if self.held >= bounds.all {
            return None;
        }
        let mut waiting = mem::take(&mut self.waiting);
        let found = waiting.next(&|holder| self.may_take(holder, bounds));
        self.waiting = waiting;
        found
    }
}

fn one_less<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// A held slot. Dropping it releases the slot.
pub(crate) struct HeldSlot {
    of: Slots,
    holder: Holder,
    is_returned: bool,
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
        let mut state = self.of.state();
        state.release_holder(self.holder);
        if state.may_take(holder, self.of.0.bounds) {
            state.hold(holder);
            self.holder = holder;
            self.of.grant_free_slots(&mut state);
            Ok(())
        } else {
            state.hold(self.holder);
            self.of.0.counts.refused();
            Err(Refused)
        }
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        if self.is_returned {
            return;
        }
        let mut state = self.of.state();
        self.of.release(&mut state, self.holder);
        self.of.grant_free_slots(&mut state);
    }
}
