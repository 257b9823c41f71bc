//! The waiting requests of a resource, in the order in which they get slots.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use super::{
    HeldSlot,
    holder::{Holder, Level},
};

/// The maximum number of waiting requests per holder.
pub(super) const MAX_WAITING: usize = 1_024;

/// The waiting requests below a level. The levels below it take turns: accounts first, then users within
/// an account, and then the credentials of a user.
#[derive(Default)]
pub(super) struct Turns {
    /// The levels below this one, the next one first.
    order: VecDeque<Level>,
    children: HashMap<Level, Turns>,
    /// The requests of a single holder.
    requests: VecDeque<oneshot::Sender<HeldSlot>>,
}

impl Turns {
    /// Appends a request to the queue of its holder. Returns `None` if the queue is full.
    pub(super) fn queue(&mut self, holder: Holder) -> Option<oneshot::Receiver<HeldSlot>> {
        let mut node = self;
        for level in holder.distinct_levels().rev() {
            if !node.children.contains_key(&level) {
                node.order.push_back(level);
            }
            node = node.children.entry(level).or_default();
        }
        let requests = &mut node.requests;
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

    /// Removes the next waiting request whose holder may have a slot. Each of its levels moves to the end
    /// of its queue.
    pub(super) fn next(
        &mut self,
        may_take: &impl Fn(Holder) -> bool,
    ) -> Option<(Holder, oneshot::Sender<HeldSlot>)> {
        for _ in 0..self.order.len() {
            let level = self.order.pop_front()?;
            let Some(child) = self.children.get_mut(&level) else { continue };
            let request = match level {
                Level::Holder(holder) => child.next_of_holder(holder, may_take),
                _ => child.next(may_take),
            };
            if child.is_empty() {
                self.children.remove(&level);
            } else {
                self.order.push_back(level);
            }
            if request.is_some() {
                return request;
            }
        }
        None
    }

    fn next_of_holder(
        &mut self,
        holder: Holder,
        may_take: &impl Fn(Holder) -> bool,
    ) -> Option<(Holder, oneshot::Sender<HeldSlot>)> {
        while self.requests.front().is_some_and(oneshot::Sender::is_closed) {
            self.requests.pop_front();
        }
        if self.requests.is_empty() || !may_take(holder) {
            return None;
        }
        self.requests.pop_front().map(|request| (holder, request))
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty() && self.requests.is_empty()
    }
}
