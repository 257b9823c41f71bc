//! A reader of a group's payloads, at its own pace.

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_graphql::ServerError;
use axum::body::Bytes;
use tokio::{sync::watch, time::sleep};

use super::{
    EndReason, SessionHandle,
    catch_up::{Batch, CatchUp},
    replay_buffer::NextPayload,
    shared_subscription::SharedSubscription,
};
use crate::{domain::stream_cursor::Position, error::Chain, graphql::ApiError, metrics::GaugeGuard};

/// The oldest point from which a subscription resumes, in milliseconds before now. An older cursor
/// resumes there, with a gap: retention may have deleted the rows before it.
const MAX_RESUME_AGE_MS: i64 = 86_400_000;

/// The retry delay after a failed read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// An item of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionItem {
    /// The result of an execution, as JSON.
    Payload(Bytes),
    /// The end of the subscription. No payload follows.
    Ended(EndReason),
}

/// An active subscription. It ends when it is dropped.
pub struct Subscription {
    session: SessionHandle,
    /// The reason of the session's end. None while the session is valid.
    end_reason: watch::Receiver<Option<EndReason>>,
    reader: Reader,
    _subscription_count: GaugeGuard,
}

struct Reader {
    group: Arc<SharedSubscription>,
    /// The number of the group's next payload to be written.
    head: watch::Receiver<u64>,
    /// The number of the next payload.
    next_number: Arc<AtomicU64>,
    /// The position that the reader has reached with the payloads that it took.
    position: Arc<Position>,
    /// The catch-up of this reader alone, and the position after it. None while the reader takes payloads
    /// from the buffer.
    pending_catch_up: Option<(CatchUp, Arc<Position>)>,
    /// The batches of the catch-up that are not written yet.
    batches: VecDeque<Batch>,
    /// True if something is missing before the next payload.
    gap: bool,
}

impl Subscription {
    /// Starts reading a group's payloads, from `after` or from now on.
    pub(super) async fn begin(
        group: Arc<SharedSubscription>,
        session: SessionHandle,
        after: Option<Position>,
        now: i64,
    ) -> Result<Self, ServerError> {
        let to_response_error = |error| ApiError::from(error).into_response_error();
        group.start().await.map_err(to_response_error)?;
        let shared = group.shared();
        if let Some(after) = &after {
            shared.catch_up_to(after).await;
        }
        let (next_number, join_position) = shared.buffer().add_reader();
        shared.advance_furthest(next_number.load(Ordering::Relaxed));
        let (head, batches) = (shared.head(), VecDeque::new());
        let (mut position, mut pending_catch_up, mut gap) = (Arc::clone(&join_position), None, false);
        if let Some(mut after) = after {
            if after.floor() < now - MAX_RESUME_AGE_MS {
                (after, gap) = (Position::at(now - MAX_RESUME_AGE_MS), true);
            }
            let (catch_up, exceeds_limit) =
                shared.catch_up_from(&after, Some(&join_position)).await.map_err(to_response_error)?;
            gap |= exceeds_limit;
            pending_catch_up = Some((catch_up, join_position));
            position = Arc::new(after);
        }
        let subscription_count = shared.metrics().track_subscription();
        let reader = Reader { group, head, next_number, position, pending_catch_up, batches, gap };
        let end_reason = session.0.end_reason.clone();
        Ok(Self { session, end_reason, reader, _subscription_count: subscription_count })
    }

    /// Returns the session of the subscriber.
    #[must_use]
    pub fn session(&self) -> &SessionHandle {
        &self.session
    }

    /// Waits for the next payload. Cancel-safe: a dropped call loses nothing.
    pub async fn next(&mut self) -> SubscriptionItem {
        loop {
            let session_end =
                async { self.end_reason.wait_for(Option::is_some).await.map_or(None, |end| *end) };
            let payload = tokio::select! {
                biased;
                end = session_end => return SubscriptionItem::Ended(end.unwrap_or(EndReason::GoingAway)),
                payload = self.reader.next_payload() => payload,
            };
            if let Some(payload) = payload {
                self.reader.group.shared().metrics().count_delivered();
                return SubscriptionItem::Payload(payload);
            }
        }
    }
}

impl Reader {
    /// Returns the next payload. Returns `None` if the caller has to call again. The catch-up's futures
    /// are boxed: they are rare, and would add their size to every waiting reader.
    async fn next_payload(&mut self) -> Option<Bytes> {
        let shared = self.group.shared();
        if let Some(batch) = self.batches.front().cloned() {
            let position = Arc::new(batch.position.clone());
            let payload = Box::pin(shared.write(batch, self.gap)).await;
            self.batches.pop_front();
            (self.gap, self.position) = (false, position);
            return Some(payload);
        }
        if let Some((catch_up, end_position)) = &mut self.pending_catch_up {
            match Box::pin(catch_up.next(&shared.plan().selection, shared.store())).await {
                Ok(Some(batches)) => self.batches.extend(batches),
                Ok(None) => {
                    self.position = Arc::clone(end_position);
                    self.pending_catch_up = None;
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "failed to read missed changes; retrying");
                    sleep(RETRY_DELAY).await;
                }
            }
            return None;
        }
        self.head.borrow_and_update();
        let next = shared.buffer().next(self.next_number.load(Ordering::Relaxed));
        match next {
            NextPayload::Payload { number, bytes, position, skipped } => {
                self.next_number.store(number + 1, Ordering::Relaxed);
                shared.advance_furthest(number + 1);
                self.position = position;
                let gap = mem::take(&mut self.gap) || skipped;
                Some(if gap { shared.mark_gap(&bytes) } else { bytes })
            }
            NextPayload::Nothing => {
                // The sender lives as long as the group.
                let _ = self.head.changed().await;
                None
            }
            NextPayload::Gone => {
                let (next_number, join_position) = shared.buffer().add_reader();
                match Box::pin(shared.catch_up_from(&self.position, Some(&join_position))).await {
                    Ok((catch_up, exceeds_limit)) => {
                        // Only the newest state of a cluster is read, so the reader may have missed earlier
                        // ones.
                        self.gap |= exceeds_limit || !shared.is_append_only();
                        self.next_number = next_number;
                        self.pending_catch_up = Some((catch_up, join_position));
                    }
                    Err(error) => {
                        tracing::warn!(error = %Chain(&error), "failed to read missed changes; retrying");
                        sleep(RETRY_DELAY).await;
                    }
                }
                None
            }
        }
    }
}
