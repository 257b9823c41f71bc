//! How long somebody may go on with what they began: as long as what they showed is good.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use entity::{
    api_token::{Scope, Scopes},
    membership::Role,
};
use futures::future::BoxFuture;
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::{End, Live};
use crate::{
    auth::{AuthError, Viewer},
    bus::{Changed, Watch},
    clock::Clock,
};

/// How long credentials are believed, unless something is heard of them.
const BELIEVED: Duration = Duration::from_secs(10);

/// The shortest time between two looks at them.
const PAUSE: Duration = Duration::from_millis(200);

/// Tells apart what was shown.
pub(super) type Key = [u8; 32];

/// Finds the viewer again whom something stands for that was shown.
pub type Again = Arc<dyn Fn() -> BoxFuture<'static, Result<Viewer, AuthError>> + Send + Sync>;

/// Somebody who may watch an account, until it ends.
#[derive(Clone)]
pub struct Pass(pub(super) Arc<Held>);

/// What is shared by all who showed the same.
pub(super) struct Held {
    viewer: Viewer,
    pub(super) ended: watch::Receiver<Option<End>>,
    looking: AbortHandle,
}

/// What somebody may see of an account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sight {
    role: Role,
    scopes: Scopes,
}

impl Sight {
    fn of(viewer: &Viewer) -> Self {
        Self { role: viewer.role(), scopes: Scopes(viewer.scopes().to_vec()) }
    }
}

impl Pass {
    /// Whose it is.
    #[must_use]
    pub fn viewer(&self) -> &Viewer {
        &self.0.viewer
    }

    /// Why it has ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        *self.0.ended.borrow()
    }

    /// Waits until it ends, and tells why.
    pub async fn ended(&self) -> End {
        let mut ended = self.0.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(End::GoingAway),
            // What looks after it is gone, as the server is.
            Err(_) => End::GoingAway,
        }
    }

    pub(super) fn sight(&self) -> Sight {
        Sight::of(self.viewer())
    }
}

impl Held {
    pub(super) fn new(live: &Live, viewer: Viewer, again: Again) -> Arc<Self> {
        let (end, ended) = watch::channel(None);
        let watch = live.0.store.bus().watch(viewer.account_id(), Changed::ACCESS);
        let (stopping, clock) = (live.0.stopping.subscribe(), Arc::downgrade(&live.0.clock));
        let looking = tokio::spawn(look_after(viewer.clone(), again, watch, stopping, clock, end));
        Arc::new(Self { viewer, ended, looking: looking.abort_handle() })
    }

    /// Whether it is of this viewer and has not ended.
    pub(super) fn is_of(&self, viewer: &Viewer) -> bool {
        let same = |viewer: &Viewer| (viewer.account_id(), viewer.user_id(), Sight::of(viewer));
        self.ended.borrow().is_none() && same(viewer) == same(&self.viewer)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

/// Looks again and again whether what was shown is still good.
async fn look_after(
    viewer: Viewer,
    again: Again,
    mut access: Watch,
    mut stopping: watch::Receiver<bool>,
    clock: Weak<dyn Clock>,
    end: watch::Sender<Option<End>>,
) {
    let sight = Sight::of(&viewer);
    let mut expires_at = viewer.expires_at();
    let reason = loop {
        let now = clock.upgrade().map(|clock| clock.timestamp());
        let left = expires_at.zip(now).map(|(end, now)| end.timestamp_millis() - now.timestamp_millis());
        let left = left.map_or(BELIEVED, |left| Duration::from_millis(u64::try_from(left).unwrap_or(0)));
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => break End::GoingAway,
            // Either it was heard of them, or their time is over, or it is time to look again.
            _ = timeout(left.min(BELIEVED), access.heard()) => {}
        }
        match again().await {
            Ok(now) if now.may(Scope::Read) && Sight::of(&now) == sight => expires_at = now.expires_at(),
            Ok(_) => break End::Forbidden,
            // Nobody knows now. What they are sent has to be read from the same store.
            Err(AuthError::Store(_)) => {}
            Err(refused) => break End::from(&refused),
        }
        sleep(PAUSE).await;
    };
    end.send_replace(Some(reason));
}
