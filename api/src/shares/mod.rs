//! Fair shares of bounded resources: slots for reports, database connections, threads.
//!
//! This module owns the rule for slots. A holder is a credential in an account, or unverified
//! credentials at an address. It may hold at most as many slots as are still free, and all holders of an
//! account or an address together at most twice as many. A single greedy holder therefore leaves half of
//! the slots, any two leave a third, and a holder without slots always finds one. Up to three slots may
//! all be held by one. If all slots are taken, waiting requests take turns by account and then by
//! holder: a holder with a hundred waiting requests waits as long as a holder with one.
//!
//! Connections, and requests whose credentials are not verified, give way instead: see `connections.rs`
//! and `unverified.rs`.
//!
//! The module does not know the purpose of the slots. Other bounds in the server that have no shares are
//! listed with their reasons in `tests.rs`.

mod activity;
mod connections;
mod eviction_queue;
#[cfg(test)]
mod tests;
mod unverified;
mod work;

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::Hash,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use entity::ids::{AccountId, ApiTokenId, UserId};
use tokio::sync::oneshot;

use self::activity::Activity;
pub(crate) use self::{
    connections::{BusyGuard, Connection, Connections},
    unverified::{UnverifiedSlot, UnverifiedSlots},
    work::{ClientWait, RequestSlot, RequestWork, acquire_thread, current_holder, wait_and_give_way},
};
use crate::metrics::{ShareCounts, ShareMetrics};

/// The number of slots from which the rule applies. Fewer slots are first come, first served: half of
/// them would be one.
const DIVISIBLE: usize = 4;

/// The maximum number of waiting requests per holder.
const MAX_WAITING: usize = 1_024;

/// The holder of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    group: Group,
    member: Member,
}

/// A group of holders that takes turns as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    /// An account.
    Account(AccountId),
    /// Unauthenticated clients at an address.
    Address(IpAddr),
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Member {
    /// An API token.
    Token(ApiTokenId),
    /// A user with any other credentials.
    User(UserId),
    /// Unverified credentials, by their hash.
    UnverifiedHash(u64),
    /// The server's own work for the account.
    Server,
}

impl Holder {
    /// Returns the holder for an authenticated caller.
    pub(crate) fn signed_in(account: AccountId, member: Member) -> Self {
        Self { group: Group::Account(account), member }
    }

    /// Returns the holder for the server's own work for an account.
    pub(crate) fn server(account: AccountId) -> Self {
        Self { group: Group::Account(account), member: Member::Server }
    }

    /// Returns the holder for an unauthenticated client at an address. `shown` is the hash of its
    /// credentials.
    pub(crate) fn for_unauthenticated(address: IpAddr, shown: u64) -> Self {
        Self { group: Group::Address(address), member: Member::UnverifiedHash(shown) }
    }
}

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
    /// active, a holder has at most `contended` of them, and an account or address twice as many.
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
    active_groups: Activity<Group>,
    active_holders: Activity<Holder>,
    held: usize,
    groups: HashMap<Group, usize>,
    holders: HashMap<Holder, usize>,
    /// The groups with waiting requests, the next one first.
    turns: VecDeque<Group>,
    waiting: HashMap<Group, WaitQueue>,
}

/// The waiting requests of a group.
#[derive(Default)]
struct WaitQueue {
    /// The members with waiting requests, the next one first.
    turns: VecDeque<Member>,
    waiting: HashMap<Member, VecDeque<oneshot::Sender<HeldSlot>>>,
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
            state.queue(holder)
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
        if holder.member != Member::Server {
            let now = Instant::now();
            self.active_groups.record(holder.group, now);
            self.active_holders.record(holder, now);
        }
    }

    /// Returns true if the holder may take a slot.
    fn may_take(&self, holder: Holder, Bounds { all, contended }: Bounds) -> bool {
        let free = all.saturating_sub(self.held);
        let held = self.holders.get(&holder).copied().unwrap_or_default();
        let by_group = self.groups.get(&holder.group).copied().unwrap_or_default();
        let leaves_slots = all < DIVISIBLE || by_group == 0 || (held < free && by_group < 2 * free);
        free > 0
            && leaves_slots
            && (held < contended || !self.active_holders.includes_others(holder, Instant::now()))
            && (by_group < 2 * contended || !self.active_groups.includes_others(holder.group, Instant::now()))
    }

    fn hold(&mut self, holder: Holder) {
        self.held += 1;
        *self.groups.entry(holder.group).or_default() += 1;
        *self.holders.entry(holder).or_default() += 1;
    }

    fn release_holder(&mut self, holder: Holder) {
        self.held -= 1;
        one_less(&mut self.groups, holder.group);
        one_less(&mut self.holders, holder);
    }

    /// Appends a request to the queue of its holder. `None` if the queue is full.
    fn queue(&mut self, holder: Holder) -> Option<oneshot::Receiver<HeldSlot>> {
        let line = self.waiting.entry(holder.group).or_insert_with(|| {
            self.turns.push_back(holder.group);
            WaitQueue::default()
        });
        let requests = line.waiting.entry(holder.member).or_insert_with(|| {
            line.turns.push_back(holder.member);
            VecDeque::new()
        });
        if requests.len() >= MAX_WAITING {
            requests.retain(|request| !request.is_closed());
            if requests.len() >= MAX_WAITING {
                return None;
            }
        }
        let (sender, receiver) = oneshot::channel();
        requests.push_back(sender);
        Some(receiver)
    }

    /// Returns the next waiting request that may have a slot. Its member and group move to the end of
    /// their queues.
    fn next(&mut self, bounds: Bounds) -> Option<(Holder, oneshot::Sender<HeldSlot>)> {
        if self.held >= bounds.all {
            return None;
        }
        for _ in 0..self.turns.len() {
            let group = self.turns.pop_front()?;
            let Some(mut line) = self.waiting.remove(&group) else { continue };
            let found = self.next_of(group, &mut line, bounds);
            if !line.turns.is_empty() {
                self.waiting.insert(group, line);
                self.turns.push_back(group);
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn next_of(
        &self,
        group: Group,
        line: &mut WaitQueue,
        bounds: Bounds,
    ) -> Option<(Holder, oneshot::Sender<HeldSlot>)> {
        for _ in 0..line.turns.len() {
            let member = line.turns.pop_front()?;
            let Some(requests) = line.waiting.get_mut(&member) else { continue };
            while requests.front().is_some_and(oneshot::Sender::is_closed) {
                requests.pop_front();
            }
            let holder = Holder { group, member };
            let found = if self.may_take(holder, bounds) { requests.pop_front() } else { None };
            if requests.is_empty() {
                line.waiting.remove(&member);
            } else {
                line.turns.push_back(member);
            }
            if let Some(sender) = found {
                return Some((holder, sender));
            }
        }
        None
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
