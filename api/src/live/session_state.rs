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

/// The time after which credentials are verified again, unless a notice arrives earlier.
const VERIFY_INTERVAL: Duration = Duration::from_secs(10);

/// The shortest time between two verifications.
const MIN_VERIFY_INTERVAL: Duration = Duration::from_millis(200);

/// The digest of credentials. Connections with equal digests share a session.
pub(super) type CredentialsDigest = [u8; 32];

/// Verifies the credentials again and returns their viewer.
pub type Reauthenticate = Arc<dyn Fn() -> BoxFuture<'static, Result<Viewer, AuthError>> + Send + Sync>;

/// A handle to the shared state of verified credentials. It permits subscriptions until it ends.
#[derive(Clone)]
pub struct SessionHandle(pub(super) Arc<SessionState>);

/// The state shared by all connections with the same credentials.
pub(super) struct SessionState {
    viewer: Viewer,
    /// The reason of the end. None while the session is valid.
    pub(super) end_reason: watch::Receiver<Option<EndReason>>,
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
        *self.0.end_reason.borrow()
    }

    /// Waits until the session ends, and returns the reason.
    pub async fn wait_for_end(&self) -> EndReason {
        let mut end_reason = self.0.end_reason.clone();
        match end_reason.wait_for(Option::is_some).await {
            Ok(end) => end.unwrap_or(EndReason::GoingAway),
            // The verification task was aborted, for example when the runtime shuts down.
            Err(_) => EndReason::GoingAway,
        }
    }

    pub(super) fn access_level(&self) -> AccessLevel {
        AccessLevel::of(self.viewer())
    }
}

impl SessionState {
    pub(super) fn new(live: &SubscriptionHub, viewer: Viewer, reauthenticate: Reauthenticate) -> Arc<Self> {
        let (end_sender, end_reason) = watch::channel(None);
        let access_changes = live.0.store.bus().subscribe(viewer.account_id(), ChangeKinds::ACCESS);
        let (shutdown, clock) = (live.0.shutdown.subscribe(), Arc::downgrade(&live.0.clock));
        let task = tokio::spawn(verify_until_end(
            viewer.clone(),
            reauthenticate,
            access_changes,
            shutdown,
            clock,
            end_sender,
        ));
        Arc::new(Self { viewer, end_reason, verification_task: task.abort_handle() })
    }

    /// Returns true if the session belongs to this viewer, with the same access, and has not ended.
    pub(super) fn belongs_to(&self, viewer: &Viewer) -> bool {
        let identity = |viewer: &Viewer| (viewer.account_id(), viewer.user_id(), AccessLevel::of(viewer));
        self.end_reason.borrow().is_none() && identity(viewer) == identity(&self.viewer)
    }
}

impl Drop for SessionState {
    fn drop(&mut self) {
        self.verification_task.abort();
    }
}

/// Verifies the credentials repeatedly until they are no longer valid, and then sends the reason.
async fn verify_until_end(
    viewer: Viewer,
    reauthenticate: Reauthenticate,
    mut access_changes: BusSubscription,
    mut shutdown: watch::Receiver<bool>,
    clock: Weak<dyn Clock>,
    end_sender: watch::Sender<Option<EndReason>>,
) {
    let initial_access = AccessLevel::of(&viewer);
    let mut expires_at = viewer.expires_at();
    let reason = loop {
        let now = clock.upgrade().map(|clock| clock.timestamp());
        let remaining_ms =
            expires_at.zip(now).map(|(expiry, now)| expiry.timestamp_millis() - now.timestamp_millis());
        let remaining = remaining_ms.map_or(VERIFY_INTERVAL, |remaining_ms| {
            Duration::from_millis(u64::try_from(remaining_ms).unwrap_or(0))
        });
        tokio::select! {
            _ = shutdown.wait_for(|has_begun| *has_begun) => break EndReason::GoingAway,
            // A notice arrived, the credentials expire, or the next verification is due.
            _ = timeout(remaining.min(VERIFY_INTERVAL), access_changes.next_changes()) => {}
        }
        match reauthenticate().await {
            Ok(viewer) if viewer.may(Scope::Read) && AccessLevel::of(&viewer) == initial_access => {
                expires_at = viewer.expires_at();
            }
            Ok(_) => break EndReason::Forbidden,
            // The store is not available, so the credentials stay unverified. Payloads come from the
            // same store.
            Err(AuthError::Store(_)) => {}
            Err(error) => break EndReason::from(&error),
        }
        sleep(MIN_VERIFY_INTERVAL).await;
    };
    end_sender.send_replace(Some(reason));
}
