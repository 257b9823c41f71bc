//! Where the schema is built.

use std::sync::{Arc, Mutex, OnceLock};

use async_graphql::{Context, Request, Response, ValidationMode};
use chrono::{DateTime, Utc};
use futures::StreamExt;

use super::{
    in_place::Merged,
    mutation::Mutation,
    query::Query,
    rate_limit::RateLimit,
    scope::AccountScope,
    subscription::{Delivery, Planned, Purpose, Subscription},
};
use crate::{
    auth::Viewer,
    store::{Store, UserStore},
};

/// How deep fields and fragments may nest: resolving and looking for fields are recursive.
pub(crate) const MAX_NESTING: usize = 30;

/// The schema with its resolvers.
#[derive(Clone)]
pub struct Schema(async_graphql::Schema<Query, Mutation, Subscription>);

/// What resolvers know of the request they work for.
pub(super) struct RequestContext {
    pub(super) viewer: Viewer,
    pub(super) scope: AccountScope,
    /// The user's own view of their accounts, if the credentials are theirs.
    pub(super) user: Option<UserStore>,
    pub(super) rate_limit: RateLimit,
}

impl Schema {
    /// Builds the schema.
    #[must_use]
    pub fn build() -> Self {
        let schema = async_graphql::Schema::build(Query, Mutation, Subscription::default())
            // The guard did, and by the whole specification.
            .validation_mode(ValidationMode::Fast)
            .limit_recursive_depth(MAX_NESTING + 2)
            .finish();
        Self(schema)
    }

    /// The schema in GraphQL's own language, as committed in `schema.graphql`.
    #[must_use]
    pub fn sdl(&self) -> String {
        self.0.sdl()
    }

    /// Answers a request that came `now` as its viewer may see it. Nothing is validated here: that is the guard's.
    pub async fn execute(
        &self,
        request: Request,
        viewer: Viewer,
        rate_limit: RateLimit,
        store: &Store,
        now: DateTime<Utc>,
    ) -> Response {
        let scope = AccountScope::new(&viewer, store.for_viewer(&viewer), now);
        let user = store.for_user_of(&viewer);
        self.0.execute(request.data(RequestContext { viewer, scope, user, rate_limit })).await
    }

    /// Answers a request of the server's own, whose pages may be longer than a client's, `max_page` items, and whose
    /// values are read.
    pub(crate) async fn execute_pages(
        &self,
        request: Request,
        viewer: Viewer,
        rate_limit: RateLimit,
        store: &Store,
        now: DateTime<Utc>,
        max_page: i32,
    ) -> Response {
        let scope = AccountScope::new(&viewer, store.for_viewer(&viewer), now).with_pages_of(max_page);
        let user = store.for_user_of(&viewer);
        let request = request.data(RequestContext { viewer, scope, user, rate_limit }).data(Merged(true));
        self.0.execute(request).await
    }

    /// Looks at what a subscription that came `now` asks for, as its viewer may see it. What does not come to anything is
    /// answered.
    pub(crate) async fn plan(
        &self,
        request: Request,
        viewer: Viewer,
        rate_limit: RateLimit,
        store: &Store,
        now: DateTime<Utc>,
    ) -> Result<Planned, Response> {
        let slot = Arc::new(OnceLock::new());
        let request = request.data(Purpose::Plan(Arc::clone(&slot)));
        let answer = self.stream(request, viewer, rate_limit, store, now).await;
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
        viewer: Viewer,
        rate_limit: RateLimit,
        store: &Store,
        now: DateTime<Utc>,
    ) -> Response {
        let request = request.data(Purpose::Deliver(Mutex::new(Some(delivery))));
        self.stream(request, viewer, rate_limit, store, now).await.unwrap_or_default()
    }

    /// The first payload of a subscription, if it has any.
    async fn stream(
        &self,
        request: Request,
        viewer: Viewer,
        rate_limit: RateLimit,
        store: &Store,
        now: DateTime<Utc>,
    ) -> Option<Response> {
        let scope = AccountScope::new(&viewer, store.for_viewer(&viewer), now);
        let user = store.for_user_of(&viewer);
        let request = request.data(RequestContext { viewer, scope, user, rate_limit });
        self.0.execute_stream(request).next().await
    }
}

pub(super) fn request<'a>(context: &Context<'a>) -> &'a RequestContext {
    context.data_unchecked::<RequestContext>()
}
