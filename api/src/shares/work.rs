//! The work of a request: the slot that it runs in, and the holder of its threads.

use std::{
    future::{Future, pending},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::{HeldSlot, Holder, Refused, Slots, UnverifiedSlot};

/// The maximum wait for a thread. It equals the longest request timeout, which ends the request earlier.
const THREAD_TIMEOUT: Duration = Duration::from_mins(10);

/// The work of a request, with the request's slot.
pub(crate) struct RequestWork {
    slot: Mutex<RequestSlot>,
    /// The slots to which the request moves after authentication.
    requests: Slots,
    threads: Slots,
    eviction: Option<Arc<Notify>>,
}

/// The slot of a request.
pub(crate) enum RequestSlot {
    /// The slot of an unverified request, and the holder that its work is charged to.
    Unverified(UnverifiedSlot, Holder),
    /// The slot of a request whose holder is known.
    Verified(HeldSlot),
}

tokio::task_local! {
    static WORK: Arc<RequestWork>;
}

impl RequestWork {
    /// Returns the work of a request that has a slot. After authentication it moves to `requests`. It
    /// runs on the given threads.
    pub(crate) fn new(slot: RequestSlot, requests: Slots, threads: Slots) -> Arc<Self> {
        let eviction = match &slot {
            RequestSlot::Unverified(slot, _) => Some(slot.eviction()),
            RequestSlot::Verified(_) => None,
        };
        Arc::new(Self { slot: Mutex::new(slot), requests, threads, eviction })
    }

    /// Runs a future as part of this work. Returns `None`, and drops the future, if the request has to
    /// give way.
    pub(crate) async fn run_future<T>(self: Arc<Self>, work: impl Future<Output = T>) -> Option<T> {
        let request_work = Arc::clone(&self);
        tokio::select! {
            biased;
            result = WORK.scope(self, work) => Some(result),
            () = request_work.wait_for_eviction() => None,
        }
    }

    /// Moves the request's slot to its holder after authentication. Returns an error if the holder has
    /// its share.
    pub(crate) fn transfer_to(&self, holder: Holder) -> Result<(), Refused> {
        let mut slot = self.slot();
        match &mut *slot {
            RequestSlot::Verified(held) => held.transfer_to(holder),
            RequestSlot::Unverified(..) => {
                *slot = RequestSlot::Verified(self.requests.try_take(holder)?);
                Ok(())
            }
        }
    }

    /// Returns true if the holder of the request is known.
    pub(crate) fn is_verified(&self) -> bool {
        matches!(*self.slot(), RequestSlot::Verified(_))
    }

    /// Marks the request as waiting for its client until the result is dropped. Meanwhile it may have to
    /// give way, unless its holder is known.
    pub(crate) fn wait_for_client(self: &Arc<Self>) -> ClientWait {
        if let RequestSlot::Unverified(slot, _) = &*self.slot() {
            slot.begin_wait();
        }
        ClientWait(Arc::clone(self))
    }

    /// Waits until the request has lost its slot.
    async fn wait_for_eviction(&self) {
        let Some(eviction) = &self.eviction else { return pending().await };
        loop {
            eviction.notified().await;
            // The request may have been verified at the same moment.
            if matches!(&*self.slot(), RequestSlot::Unverified(slot, _) if slot.is_evicted()) {
                return;
            }
        }
    }

    fn holder(&self) -> Holder {
        match &*self.slot() {
            RequestSlot::Unverified(_, holder) => *holder,
            RequestSlot::Verified(slot) => slot.holder(),
        }
    }

    fn slot(&self) -> MutexGuard<'_, RequestSlot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits for its client.
pub(crate) struct ClientWait(Arc<RequestWork>);

impl Drop for ClientWait {
    fn drop(&mut self) {
        if let RequestSlot::Unverified(slot, _) = &*self.0.slot() {
            slot.end_wait();
        }
    }
}

/// Waits as the client would: meanwhile the current task's request may have to give way, unless its holder
/// is known.
pub(crate) async fn wait_and_give_way<T>(waiting: impl Future<Output = T>) -> T {
    let work = WORK.try_with(Arc::clone).ok();
    let _wait = work.as_ref().map(RequestWork::wait_for_client);
    waiting.await
}

/// Returns the holder of the current task's request. Returns `None` for the server's own tasks.
pub(crate) fn current_holder() -> Option<Holder> {
    WORK.try_with(|work| work.holder()).ok()
}

/// Waits for a thread for the current task's work. Returns `None` for the server's own tasks and for
/// detached work, which need no slot.
pub(crate) async fn acquire_thread() -> Option<HeldSlot> {
    let (threads, holder) = WORK.try_with(|work| (work.threads.clone(), work.holder())).ok()?;
    // After a rejection the work runs anyway: the slots of its requests bound it.
    threads.take(holder, THREAD_TIMEOUT).await.ok()
}
