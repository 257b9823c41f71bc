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

/// The furthest point from which a subscription resumes, in milliseconds before now. An older cursor
/// resumes there, with a gap: retention may have deleted the rows before it.
const MAX_RESUME_AGE_MS: i64 = 86_400_000;

/// The retry delay after a failed read.
const PATIENCE: Duration = Duration::from_secs(1);

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
    ended: watch::Receiver<Option<EndReason>>,
    reader: Reader,
    _counted: GaugeGuard,
}

struct Reader {
    group: Arc<SharedSubscription>,
    head: watch::Receiver<u64>,
    /// The number of the next payload.
    place: Arc<AtomicU64>,
    /// The position up to which all taken payloads reach.
    position: Arc<Position>,
    /// The catch-up of this reader alone, and the position after it.
    missed: Option<(CatchUp, Arc<Position>)>,
    /// The batches of the catch-up that are not written yet.
    pieces: VecDeque<Batch>,
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
        let failed = |error| ApiError::from(error).into_response_error();
        group.start().await.map_err(failed)?;
        let shared = group.shared();
        if let Some(after) = &after {
            shared.catch_up_to(after).await;
        }
        let (place, joined) = shared.ring().add_reader();
        shared.advance_furthest(place.load(Ordering::Relaxed));
        let (head, pieces) = (shared.head(), VecDeque::new());
        let (mut position, mut missed, mut gap) = (Arc::clone(&joined), None, false);
        if let Some(mut after) = after {
            if after.floor() < now - MAX_RESUME_AGE_MS {
                (after, gap) = (Position::at(now - MAX_RESUME_AGE_MS), true);
            }
            let (catch_up, too_many) = shared.catch_up_from(&after, Some(&joined)).await.map_err(failed)?;
            gap |= too_many;
            missed = Some((catch_up, joined));
            position = Arc::new(after);
        }
        let counted = shared.metrics().subscription();
        let reader = Reader { group, head, place, position, missed, pieces, gap };
        Ok(Self { ended: session.0.ended.clone(), session, reader, _counted: counted })
    }

    /// Returns the session of the subscriber.
    #[must_use]
    pub fn session(&self) -> &SessionHandle {
        &self.session
    }

    /// Waits for the next payload. Cancel-safe: a dropped call loses nothing.
    pub async fn next(&mut self) -> SubscriptionItem {
        loop {
            let ended = async { self.ended.wait_for(Option::is_some).await.map_or(None, |end| *end) };
            let payload = tokio::select! {
                biased;
                end = ended => return SubscriptionItem::Ended(end.unwrap_or(EndReason::GoingAway)),
                payload = self.reader.payload() => payload,
            };
            if let Some(payload) = payload {
                self.reader.group.shared().metrics().delivered();
                return SubscriptionItem::Payload(payload);
            }
        }
    }
}

impl Reader {
    /// Returns the next payload. Returns `None` if the caller has to call again. The catch-up's futures
    /// are boxed: they are rare, and would add their size to every waiting reader.
    async fn payload(&mut self) -> Option<Bytes> {
        let shared = self.group.shared();
        if let Some(piece) = self.pieces.front().cloned() {
            let position = Arc::new(piece.position.clone());
            let payload = Box::pin(shared.write(piece, self.gap)).await;
            self.pieces.pop_front();
            (self.gap, self.position) = (false, position);
            return Some(payload);
        }
        if let Some((catch_up, whole)) = &mut self.missed {
            match Box::pin(catch_up.next(&shared.planned().selection, shared.store())).await {
                Ok(Some(pieces)) => self.pieces.extend(pieces),
                Ok(None) => {
                    self.position = Arc::clone(whole);
                    self.missed = None;
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "failed to read missed changes; retrying");
                    sleep(PATIENCE).await;
                }
            }
            return None;
        }
        self.head.borrow_and_update();
        let next = shared.ring().next(self.place.load(Ordering::Relaxed));
        match next {
            NextPayload::Payload { number, bytes, position, skipped } => {
                self.place.store(number + 1, Ordering::Relaxed);
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
                let (place, joined) = shared.ring().add_reader();
                match Box::pin(shared.catch_up_from(&self.position, Some(&joined))).await {
                    Ok((catch_up, too_many)) => {
                        // Of a stream of states, only the newest state is read, so the reader may have
                        // missed others.
                        self.gap |= too_many || !shared.is_append_only();
                        self.place = place;
                        self.missed = Some((catch_up, joined));
                    }
                    Err(error) => {
                        tracing::warn!(error = %Chain(&error), "failed to read missed changes; retrying");
                        sleep(PATIENCE).await;
                    }
                }
                None
            }
        }
    }
}
