//! Somebody who reads what a group writes, as fast as they take it.

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
    End, Pass,
    errand::{Errand, Piece},
    group::Group,
    ring::Next,
};
use crate::{domain::position::Position, error::Chain, graphql::ApiError, metrics::Counted};

/// What is resumed from longer ago, in milliseconds, is resumed from then, with a gap: what is kept for a while only may
/// have been deleted.
const MAX_RESUMED_MS: i64 = 86_400_000;

/// Before what failed is tried again.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a subscription delivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The result of an execution, as JSON.
    Payload(Bytes),
    /// There are no more.
    Ended(End),
}

/// A subscription that was begun. It ends when it is dropped.
pub struct Subscription {
    pass: Pass,
    ended: watch::Receiver<Option<End>>,
    reader: Reader,
    _counted: Counted,
}

struct Reader {
    group: Arc<Group>,
    head: watch::Receiver<u64>,
    /// The number of the payload that is taken next.
    place: Arc<AtomicU64>,
    /// How far all is read that was taken.
    position: Arc<Position>,
    /// What was missed and is read for this reader alone, and how far all is read then.
    missed: Option<(Errand, Arc<Position>)>,
    /// What was read of that and is not written yet.
    pieces: VecDeque<Piece>,
    /// Whether something is missing in front of the next payload.
    gap: bool,
}

impl Subscription {
    /// Begins to read what a group writes: from `after` on, or from now on.
    pub(super) async fn begin(
        group: Arc<Group>,
        pass: Pass,
        after: Option<Position>,
        now: i64,
    ) -> Result<Self, ServerError> {
        let failed = |error| ApiError::from(error).of_the_answer();
        group.start().await.map_err(failed)?;
        let shared = group.shared();
        if let Some(after) = &after {
            shared.reach(after).await;
        }
        let (place, joined) = shared.ring().join();
        shared.took(place.load(Ordering::Relaxed));
        let (head, pieces) = (shared.head(), VecDeque::new());
        let (mut position, mut missed, mut gap) = (Arc::clone(&joined), None, false);
        if let Some(mut after) = after {
            if after.floor() < now - MAX_RESUMED_MS {
                (after, gap) = (Position::at(now - MAX_RESUMED_MS), true);
            }
            let (arrivals, too_many) = shared.missed(&after, Some(&joined)).await.map_err(failed)?;
            gap |= too_many;
            missed = Some((Errand::new(arrivals, after.clone()), joined));
            position = Arc::new(after);
        }
        let counted = shared.metrics().subscription();
        let reader = Reader { group, head, place, position, missed, pieces, gap };
        Ok(Self { ended: pass.0.ended.clone(), pass, reader, _counted: counted })
    }

    /// Whose it is.
    #[must_use]
    pub fn pass(&self) -> &Pass {
        &self.pass
    }

    /// The next payload, when there is one. Nothing is lost if it is not waited for to the end.
    pub async fn next(&mut self) -> Delivered {
        loop {
            let ended = async { self.ended.wait_for(Option::is_some).await.map_or(None, |end| *end) };
            let payload = tokio::select! {
                biased;
                end = ended => return Delivered::Ended(end.unwrap_or(End::GoingAway)),
                payload = self.reader.payload() => payload,
            };
            if let Some(payload) = payload {
                self.reader.group.shared().metrics().delivered();
                return Delivered::Payload(payload);
            }
        }
    }
}

impl Reader {
    /// The next payload, or none if it has to be looked for again. What reads for this reader alone is in a box: it is seldom
    /// there, and would be as large in each of those who wait.
    async fn payload(&mut self) -> Option<Bytes> {
        let shared = self.group.shared();
        if let Some(piece) = self.pieces.front().cloned() {
            let position = Arc::new(piece.position.clone());
            let payload = Box::pin(shared.write(piece, self.gap)).await;
            self.pieces.pop_front();
            (self.gap, self.position) = (false, position);
            return Some(payload);
        }
        if let Some((errand, whole)) = &mut self.missed {
            match Box::pin(errand.next(&shared.planned().wanted, shared.store())).await {
                Ok(Some(pieces)) => self.pieces.extend(pieces),
                Ok(None) => {
                    self.position = Arc::clone(whole);
                    self.missed = None;
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "what was missed cannot be read now");
                    sleep(PATIENCE).await;
                }
            }
            return None;
        }
        self.head.borrow_and_update();
        let next = shared.ring().next(self.place.load(Ordering::Relaxed));
        match next {
            Next::Payload { number, bytes, position, skipped } => {
                self.place.store(number + 1, Ordering::Relaxed);
                shared.took(number + 1);
                self.position = position;
                let gap = mem::take(&mut self.gap) || skipped;
                Some(if gap { shared.behind_a_gap(&bytes) } else { bytes })
            }
            Next::Nothing => {
                // What changes it lives as long as the group.
                let _ = self.head.changed().await;
                None
            }
            Next::Gone => {
                let (place, joined) = shared.ring().join();
                match Box::pin(shared.missed(&self.position, Some(&joined))).await {
                    Ok((arrivals, too_many)) => {
                        // Of what has a state, the newest is read and the others are not.
                        self.gap |= too_many || !shared.appends();
                        self.place = place;
                        self.missed = Some((Errand::new(arrivals, Position::clone(&self.position)), joined));
                    }
                    Err(error) => {
                        tracing::warn!(error = %Chain(&error), "what was missed cannot be read now");
                        sleep(PATIENCE).await;
                    }
                }
                None
            }
        }
    }
}
