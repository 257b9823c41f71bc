//! Subscriptions: each change is read once and written once for all equal subscriptions, and delivered
//! to each subscriber at its own pace.
//!
//! A [`SessionHandle`] represents credentials, and ends when they do. With it, [`SubscriptionHub`] turns
//! a checked document into a [`Subscription`]: a stream of serialized payloads for a transport to send.
//! Subscriptions of one account that differ only in their starting point form a group. A group has one task,
//! which reads and writes, and a short replay buffer. A reader is a position in that buffer. A reader that
//! falls behind the buffer catches up from the database, page by page at its own pace, and then continues
//! with the buffer. A reader therefore needs the same memory whether it is fast or slow.

mod catch_up;
mod replay_buffer;
mod reported_removals;
mod round_pacing;
mod session_state;
mod shared_subscription;
mod subscription;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use async_graphql::{Response, ServerError};
use entity::ids::{AccountId, UserId};
use tokio::sync::watch;

use self::shared_subscription::{Renderer, SharedSubscription};
pub use self::{
    session_state::{Reauthenticate, SessionHandle},
    subscription::{Subscription, SubscriptionItem},
};
use crate::{
    auth::{AuthError, Viewer},
    clock::Clock,
    domain::audit::Origin,
    graphql::{ExecutionContext, RateLimit, Schema, finalize_response, log_defect},
    guard::{CheckedRequest, Digest, Kind},
    metrics::LiveMetrics,
    store::Store,
};

/// The reason why a subscription ended, or anything else that lives as long as a [`SessionHandle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The credentials are not valid any more: they were revoked or have expired.
    Unauthenticated,
    /// The credentials are valid but lost this access: a membership ended or a role changed.
    Forbidden,
    /// The server is shutting down. Another server may continue.
    GoingAway,
}

/// The factory of subscriptions. It holds their groups and sessions.
#[derive(Clone)]
pub struct SubscriptionHub(Arc<Inner>);

struct Inner {
    schema: Schema,
    store: Store,
    clock: Arc<dyn Clock>,
    /// The timeout for writing one payload.
    timeout: Duration,
    groups: Mutex<HashMap<GroupKey, Weak<SharedSubscription>>>,
    sessions: Mutex<HashMap<session_state::CredentialsDigest, Weak<session_state::SessionState>>>,
    /// True while the server is shutting down.
    shutdown: watch::Sender<bool>,
    metrics: LiveMetrics,
}

/// The identity of a group: the account, the subscriber's access, the digest of the document, and the
/// subscriber if a selected field depends on the user.
type GroupKey = (AccountId, session_state::AccessLevel, Digest, Option<UserId>);

impl fmt::Debug for SubscriptionHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubscriptionHub")
    }
}

impl SubscriptionHub {
    /// Creates the hub of subscriptions to the changes in `store`, which its bus reports.
    #[must_use]
    pub(crate) fn new(
        schema: Schema,
        store: Store,
        clock: Arc<dyn Clock>,
        timeout: Duration,
        metrics: LiveMetrics,
    ) -> Self {
        let (groups, sessions) = (Mutex::default(), Mutex::default());
        let shutdown = watch::Sender::new(false);
        Self(Arc::new(Inner { schema, store, clock, timeout, groups, sessions, shutdown, metrics }))
    }

    /// Creates the session state of an authenticated viewer. Equal credentials, with equal digests, share
    /// one [`SessionHandle`]. `reauthenticate` verifies them periodically, and whenever a membership, a role
    /// or a token of the account changes.
    #[must_use]
    pub fn open_session(
        &self,
        viewer: Viewer,
        credentials_digest: session_state::CredentialsDigest,
        reauthenticate: Reauthenticate,
    ) -> SessionHandle {
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = sessions.get(&credentials_digest).and_then(Weak::upgrade)
            && state.belongs_to(&viewer)
        {
            return SessionHandle(state);
        }
        sessions.retain(|_, state| state.strong_count() > 0);
        let state = session_state::SessionState::new(self, viewer, reauthenticate);
        sessions.insert(credentials_digest, Arc::downgrade(&state));
        SessionHandle(state)
    }

    /// Starts a subscription. The caller has checked it with the guard and charged its cost; `rate_limit` is
    /// the state of the rate limit after that.
    ///
    /// # Errors
    /// Returns the errors of a request that was not executed, each with a code.
    pub(crate) async fn subscribe(
        &self,
        session: &SessionHandle,
        checked_request: CheckedRequest,
        origin: Origin,
        rate_limit: RateLimit,
    ) -> Result<Subscription, Vec<ServerError>> {
        let Kind::Subscription(digest) = checked_request.kind else {
            return Err(vec![log_defect("the operation is no subscription")]);
        };
        let Inner { schema, store, clock, timeout, metrics, .. } = &*self.0;
        let (viewer, template) = (session.viewer().clone(), checked_request.template);
        let account = viewer.account_id();
        let user = checked_request.is_personal.then_some(viewer.user_id());
        let request = template.clone().into_request();
        let execution = ExecutionContext { viewer, origin, rate_limit, now: clock.now() };
        let plan = schema.plan_subscription(request, execution.clone(), store).await;
        let mut plan = plan.map_err(request_errors)?;
        let after = plan.after.take();
        let key = (account, session.access_level(), digest, user);
        let group = {
            let mut groups = self.lock_groups();
            let existing = groups.get(&key).and_then(Weak::upgrade);
            existing.unwrap_or_else(|| {
                let renderer = Renderer {
                    schema: schema.clone(),
                    template,
                    execution,
                    store: store.clone(),
                    clock: Arc::clone(clock),
                    timeout: *timeout,
                    metrics: metrics.clone(),
                };
                let group = SharedSubscription::new(plan, renderer);
                groups.retain(|_, group| group.strong_count() > 0);
                groups.insert(key, Arc::downgrade(&group));
                group
            })
        };
        let now = clock.timestamp().timestamp_millis();
        Subscription::begin(group, session.clone(), after, now).await.map_err(|error| vec![error])
    }

    /// Ends all sessions, because the server is shutting down.
    pub fn stop(&self) {
        self.0.shutdown.send_replace(true);
    }

    /// Returns the metrics of subscriptions.
    pub(crate) fn metrics(&self) -> &LiveMetrics {
        &self.0.metrics
    }

    fn lock_groups(&self) -> MutexGuard<'_, HashMap<GroupKey, Weak<SharedSubscription>>> {
        self.0.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<&AuthError> for EndReason {
    fn from(error: &AuthError) -> Self {
        match error {
            AuthError::NoAccount | AuthError::MissingScope(_) | AuthError::SchedulerToken => Self::Forbidden,
            _ => Self::Unauthenticated,
        }
    }
}

/// Returns the errors of a subscription that cannot start.
fn request_errors(mut response: Response) -> Vec<ServerError> {
    finalize_response(&mut response);
    // Nothing was executed: these are errors of the request, and have no path in a response.
    response.errors.iter_mut().for_each(|error| error.path.clear());
    response.errors
}
