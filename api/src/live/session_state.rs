//! Session state: how long a subscription or a connection may continue, which is as long as its
//! credentials are valid.

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

use super::{EndReason, SubscriptionHub};
use crate::{
    auth::{AuthError, Viewer},
    bus::{BusSubscription, ChangeKinds},
    clock::Clock,
};

/// The time after which credentials are verified reauthenticate, unless a notice arrives earlier.
const VERIFY_INTERVAL: Duration = Duration::from_secs(10);

/// The shortest time between two verifications.
const MIN_VERIFY_INTERVAL: Duration = Duration::from_millis(200);

/// The identity of credentials, for sharing a session.
pub(super) type Key = [u8; 32];

/// Verifies the credentials reauthenticate and returns their viewer.
pub type Reauthenticate = Arc<dyn Fn() -> BoxFuture<'static, Result<Viewer, AuthError>> + Send + Sync>;

/// A handle to the shared state of verified credentials. It permits subscriptions until it ends.
#[derive(Clone)]
pub struct SessionHandle(pub(super) Arc<SessionState>);

/// The state shared by all connections with the same credentials.
pub(super) struct SessionState {
    viewer: Viewer,
    pub(super) ended: watch::Receiver<Option<EndReason>>,
    verification_task: AbortHandle,
}

/// The access rights of a viewer within an account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AccessLevel {
    role: Role,
    scopes: Scopes,
}

impl AccessLevel {
    fn of(viewer: &Viewer) -> Self {
        Self { role: viewer.role(), scopes: Scopes(viewer.scopes().to_vec()) }
    }
}

impl SessionHandle {
    /// Returns the viewer.
    #[must_use]
    pub fn viewer(&self) -> &Viewer {
        &self.0.viewer
    }

    /// Returns the reason of the end. None while the session is valid.
    #[must_use]
    pub fn end(&self) -> Option<EndReason> {
        *self.0.ended.borrow()
    }

    /// Waits until the session ends, and returns the reason.
    pub async fn wait_for_end(&self) -> EndReason {
        let mut ended = self.0.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(EndReason::GoingAway),
            // The verifying task is gone, as at the server's shutdown.
            Err(_) => EndReason::GoingAway,
        }
    }

    pub(super) fn access_level(&self) -> AccessLevel {
        AccessLevel::of(self.viewer())
    }
}

impl SessionState {
    pub(super) fn new(live: &SubscriptionHub, viewer: Viewer, reauthenticate: Reauthenticate) -> Arc<Self> {
        let (end, ended) = watch::channel(None);
        let watch = live.0.store.bus().watch(viewer.account_id(), ChangeKinds::ACCESS);
        let (stopping, clock) = (live.0.stopping.subscribe(), Arc::downgrade(&live.0.clock));
        let verifier =
            tokio::spawn(verify_until_end(viewer.clone(), reauthenticate, watch, stopping, clock, end));
        Arc::new(Self { viewer, ended, verification_task: verifier.abort_handle() })
    }

    /// Returns true if the session belongs to this viewer, with the same access, and has not ended.
    pub(super) fn belongs_to(&self, viewer: &Viewer) -> bool {
        let same = |viewer: &Viewer| (viewer.account_id(), viewer.user_id(), AccessLevel::of(viewer));
        self.ended.borrow().is_none() && same(viewer) == same(&self.viewer)
    }
}

impl Drop for SessionState {
    fn drop(&mut self) {
        self.verification_task.abort();
    }
}

/// Verifies the credentials until they are not valid any more.
async fn verify_until_end(
    viewer: Viewer,
    reauthenticate: Reauthenticate,
    mut access: BusSubscription,
    mut stopping: watch::Receiver<bool>,
    clock: Weak<dyn Clock>,
    end: watch::Sender<Option<EndReason>>,
) {
    let initial_access = AccessLevel::of(&viewer);
    let mut expires_at = viewer.expires_at();
    let reason = loop {
        let now = clock.upgrade().map(|clock| clock.timestamp());
        let remaining = expires_at.zip(now).map(|(end, now)| end.timestamp_millis() - now.timestamp_millis());
        let remaining = remaining.map_or(VERIFY_INTERVAL, |remaining| {
            Duration::from_millis(u64::try_from(remaining).unwrap_or(0))
        });
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => break EndReason::GoingAway,
            // A notice arrived, the credentials expire, or the next verification is due.
            _ = timeout(remaining.min(VERIFY_INTERVAL), access.next_changes()) => {}
        }
        match reauthenticate().await {
            Ok(now) if now.may(Scope::Read) && AccessLevel::of(&now) == initial_access => {
                expires_at = now.expires_at();
            }
            Ok(_) => break EndReason::Forbidden,
            // The store is not available, so the credentials stay unverified. Payloads come from the
            // same store.
            Err(AuthError::Store(_)) => {}
            Err(refused) => break EndReason::from(&refused),
        }
        sleep(MIN_VERIFY_INTERVAL).await;
    };
    end.send_replace(Some(reason));
}
