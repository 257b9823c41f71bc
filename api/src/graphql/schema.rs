//! Where the schema is built.

use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use apollo_compiler::validation::Valid;
use async_graphql::{Context, Request, Response, ValidationMode};
use chrono::{DateTime, Utc};
use entity::audit_entry::Action;
use futures::StreamExt;

use super::{
    audit_entry::Refusals,
    connection::MAX_LIMIT,
    error::ApiError,
    in_place::Merged,
    mutation::Mutation,
    query::Query,
    rate_limit::RateLimit,
    scope::AccountScope,
    subscription::{Delivery, Planned, Purpose, Subscription},
};
use crate::{
    auth::Viewer,
    domain::audit::{Actor, Origin},
    store::{AccountStore, Store, StoreError, UserStore},
};

/// How deep fields and fragments may nest: resolving and looking for fields are recursive.
pub(crate) const MAX_NESTING: usize = 30;

/// Why a subscription is refused that would decrypt what is written down when it is read.
pub(crate) const NOT_WATCHED: &str =
    "code and profiles are not part of subscriptions: ask for them with a query";

type Executable = async_graphql::Schema<Query, Mutation, Subscription>;

// Every server has the same: what they differ in comes with each request.
static EXECUTABLE: LazyLock<Executable> = LazyLock::new(|| {
    async_graphql::Schema::build(Query, Mutation, Subscription::default())
        // The guard did, and by the whole specification.
        .validation_mode(ValidationMode::Fast)
        .limit_recursive_depth(MAX_NESTING + 2)
        .finish()
});
static SDL: LazyLock<String> = LazyLock::new(|| EXECUTABLE.sdl());
static CHECKED: LazyLock<Valid<apollo_compiler::Schema>> = LazyLock::new(|| {
    apollo_compiler::Schema::parse_and_validate(Schema::sdl(), "schema.graphql")
        .expect("the schema is our own, and a test reads it")
});

/// The schema with its resolvers.
#[derive(Clone)]
pub struct Schema(Executable, Arc<Refusals>);

/// What resolvers know of the request they work for.
pub(super) struct RequestContext {
    pub(super) viewer: Viewer,
    pub(super) scope: AccountScope,
    /// The user's own view of their accounts, if the credentials are theirs.
    pub(super) user: Option<UserStore>,
    /// The viewer as what is written down of whoever changes something.
    pub(super) actor: Actor,
    pub(super) rate_limit: RateLimit,
}

/// Who asks, from where and when, and what they have left to ask.
#[derive(Clone)]
pub struct Caller {
    /// Who asks.
    pub viewer: Viewer,
    /// Where the request comes from.
    pub origin: Origin,
    /// What is left of the caller's points.
    pub rate_limit: RateLimit,
    /// When the request came.
    pub now: DateTime<Utc>,
}

impl Schema {
    /// The schema for a server that has refused nothing yet.
    pub(crate) fn new() -> Self {
        Self(EXECUTABLE.clone(), Arc::default())
    }

    /// The schema in GraphQL's own language, as committed in `schema.graphql`.
    #[must_use]
    pub fn sdl() -> &'static str {
        &SDL
    }

    /// The schema as documents are checked with it.
    pub(crate) fn checked() -> &'static Valid<apollo_compiler::Schema> {
        &CHECKED
    }

    /// Answers a request as its viewer may see it. Nothing is validated here: that is the guard's.
    pub async fn execute(&self, request: Request, caller: Caller, store: &Store) -> Response {
        self.answer(request, caller, store, MAX_LIMIT).await
    }

    /// Answers a request of the server's own, whose pages may be longer than a client's, `max_page` items, and whose
    /// values are read.
    pub(crate) async fn execute_pages(
        &self,
        request: Request,
        caller: Caller,
        store: &Store,
        max_page: i32,
    ) -> Response {
        self.answer(request.data(Merged(true)), caller, store, max_page).await
    }

    async fn answer(&self, request: Request, caller: Caller, store: &Store, max_page: i32) -> Response {
        let Caller { viewer, origin, rate_limit, now } = caller;
        let actor = viewer.actor(origin, now.into());
        let account = store.for_viewer(&viewer).acting(actor.clone());
        let scope = AccountScope::new(&viewer, account.clone(), self.1.clone(), now).with_pages_of(max_page);
        let user = store.for_user_of(&viewer);
        let context = RequestContext { viewer, scope, user, actor, rate_limit };
        let response = self.0.execute(request.data(context)).await;
        // Before anybody sees it. What cannot be written down is not told.
        match account.audit_reads().await {
            Ok(()) => response,
            Err(error) => Response::from_errors(vec![ApiError::from(error).of_the_answer()]),
        }
    }

    /// Writes down that somebody tried over another way what a mutation refuses, unless the same was written down just now.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn refused(
        &self,
        viewer: &Viewer,
        store: &AccountStore,
        action: Action,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let scope = AccountScope::new(viewer, store.clone(), self.1.clone(), now);
        scope.lacks_admin(action).await
    }

    /// Looks at what a subscription asks for, as its viewer may see it. What does not come to anything is answered.
    pub(crate) async fn plan(
        &self,
        request: Request,
        caller: Caller,
        store: &Store,
    ) -> Result<Planned, Response> {
        let slot = Arc::new(OnceLock::new());
        let request = request.data(Purpose::Plan(Arc::clone(&slot)));
        let answer = self.stream(request, caller, store).await;
        match slot.get() {
            Some(planned) => Ok(planned.clone()),
            None => Err(answer.unwrap_or_default()),
        }
    }

    /// Writes a payload of a subscription, as its viewer may see it.
    pub(crate) async fn deliver(
        &self,
        request: Request,
        delivery: Delivery,
        caller: Caller,
        store: &Store,
    ) -> Response {
        let request = request.data(Purpose::Deliver(Mutex::new(Some(delivery))));
        self.stream(request, caller, store).await.unwrap_or_default()
    }

    /// The first payload of a subscription, if it has any. It is for several readers, so that nobody acts in it: what is
    /// written down when it is read is not part of it.
    async fn stream(&self, request: Request, caller: Caller, store: &Store) -> Option<Response> {
        let Caller { viewer, origin, rate_limit, now } = caller;
        let (actor, account) = (viewer.actor(origin, now.into()), store.for_viewer(&viewer));
        let scope = AccountScope::new(&viewer, account.clone(), self.1.clone(), now);
        let user = store.for_user_of(&viewer);
        let context = RequestContext { viewer, scope, user, actor, rate_limit };
        let response = self.0.execute_stream(request.data(context)).next().await;
        if !account.read_what_is_audited() {
            return response;
        }
        // The guard refuses what would come to this, as far as the schema tells it.
        Some(Response::from_errors(vec![ApiError::Forbidden(NOT_WATCHED.to_owned()).of_the_answer()]))
    }
}

pub(super) fn request<'a>(context: &Context<'a>) -> &'a RequestContext {
    context.data_unchecked::<RequestContext>()
}
