//! Subscriptions: what is read again whenever something changed, written once for all who asked for the same, and given to
//! each of them as fast as they take it.
//!
//! Whoever shows credentials has a [`Pass`], which ends when they do. With it, [`Live`] makes a [`Subscription`]
//! of a checked document: a stream of written payloads, for a transport to send. Subscriptions of one account that differ
//! only in where they begin are a group. It has one task, which reads and writes, and a short list of what it wrote; a
//! reader is a place in that list. Whoever is too slow for the list reads for themselves what they missed, from the
//! database, page by page as they take it, and then goes on with the list. So a reader costs the same memory whether fast
//! or slow.

mod errand;
mod group;
mod pass;
mod ring;
mod subscription;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use async_graphql::{Response, ServerError};
use entity::ids::AccountId;
use tokio::sync::watch;

use self::group::{Group, Renderer};
pub use self::{
    pass::{Again, Pass},
    subscription::{Delivered, Subscription},
};
use crate::{
    auth::{AuthError, Viewer},
    clock::Clock,
    domain::audit::Origin,
    graphql::{Caller, RateLimit, Schema, finish},
    guard::{Digest, Guarded, Kind},
    metrics::LiveMetrics,
    store::Store,
};

/// Why a subscription ended, or whatever else lives as long as a [`Pass`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The credentials are not valid any more: they were revoked, or their time is over.
    Unauthenticated,
    /// They are, but not for this any more: a membership ended, or a role changed.
    Forbidden,
    /// The server stops. Another one may go on.
    GoingAway,
}

/// Makes subscriptions.
#[derive(Clone)]
pub struct Live(Arc<Inner>);

struct Inner {
    schema: Schema,
    store: Store,
    clock: Arc<dyn Clock>,
    /// How long writing a payload may take.
    timeout: Duration,
    groups: Mutex<HashMap<GroupKey, Weak<Group>>>,
    passes: Mutex<HashMap<pass::Key, Weak<pass::Held>>>,
    /// Whether the server stops.
    stopping: watch::Sender<bool>,
    metrics: LiveMetrics,
}

/// Tells groups apart: whose account it is, what its members may be used for, and what is asked.
type GroupKey = (AccountId, pass::Sight, Digest);

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Live")
    }
}

impl Live {
    /// Subscriptions to what changes in `store`, as its bus tells.
    #[must_use]
    pub(crate) fn new(
        schema: Schema,
        store: Store,
        clock: Arc<dyn Clock>,
        timeout: Duration,
        metrics: LiveMetrics,
    ) -> Self {
        let (groups, passes) = (Mutex::default(), Mutex::default());
        let stopping = watch::Sender::new(false);
        Self(Arc::new(Inner { schema, store, clock, timeout, groups, passes, stopping, metrics }))
    }

    /// Lets somebody in who has just proved who they are. `shown` tells apart what was shown: whoever shows the same has the
    /// same pass, whose credentials are looked at by `again` from time to time, and whenever it changed who may see the
    /// account.
    #[must_use]
    pub fn admit(&self, viewer: Viewer, shown: pass::Key, again: Again) -> Pass {
        let mut passes = self.0.passes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = passes.get(&shown).and_then(Weak::upgrade)
            && held.is_of(&viewer)
        {
            return Pass(held);
        }
        passes.retain(|_, held| held.strong_count() > 0);
        let held = pass::Held::new(self, viewer, again);
        passes.insert(shown, Arc::downgrade(&held));
        Pass(held)
    }

    /// Begins a subscription. The guard has checked it, and its cost was taken from the budget, of which so much is `left`.
    ///
    /// # Errors
    /// Why it does not begin: errors as a request has them whose execution never began, with codes.
    pub(crate) async fn subscribe(
        &self,
        pass: &Pass,
        guarded: Guarded,
        origin: Origin,
        left: RateLimit,
    ) -> Result<Subscription, Vec<ServerError>> {
        let Kind::Subscription(digest) = guarded.kind else {
            return Err(vec![ServerError::new("the operation is no subscription", None)]);
        };
        let Inner { schema, store, clock, timeout, metrics, .. } = &*self.0;
        let (viewer, template) = (pass.viewer().clone(), guarded.template);
        let account = viewer.account_id();
        let request = template.clone().into_request();
        let caller = Caller { viewer, origin, rate_limit: left, now: clock.now() };
        let planned = schema.plan(request, caller.clone(), store).await;
        let mut planned = planned.map_err(refusal)?;
        let after = planned.after.take();
        let key = (account, pass.sight(), digest);
        let group = {
            let mut groups = self.groups();
            let known = groups.get(&key).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let renderer = Renderer {
                    schema: schema.clone(),
                    template,
                    caller,
                    store: store.clone(),
                    clock: Arc::clone(clock),
                    timeout: *timeout,
                    metrics: metrics.clone(),
                };
                let group = Group::new(planned, renderer);
                groups.retain(|_, group| group.strong_count() > 0);
                groups.insert(key, Arc::downgrade(&group));
                group
            })
        };
        let now = clock.timestamp().timestamp_millis();
        Subscription::begin(group, pass.clone(), after, now).await.map_err(|error| vec![error])
    }

    /// Ends all that lives as long as a pass, because the server stops.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// What is counted of it.
    pub(crate) fn metrics(&self) -> &LiveMetrics {
        &self.0.metrics
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<GroupKey, Weak<Group>>> {
        self.0.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<&AuthError> for End {
    fn from(error: &AuthError) -> Self {
        match error {
            AuthError::NoAccount | AuthError::MissingScope(_) => Self::Forbidden,
            _ => Self::Unauthenticated,
        }
    }
}

/// The errors of a subscription that does not begin.
fn refusal(mut response: Response) -> Vec<ServerError> {
    finish(&mut response);
    // Nothing was executed: that is an error of the request, and of no field of an answer.
    response.errors.iter_mut().for_each(|error| error.path.clear());
    response.errors
}
