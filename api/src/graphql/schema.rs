//! Where the schema is built and its limits are set.

use async_graphql::{Context, EmptySubscription, Request, Response};
use chrono::{DateTime, Utc};

use super::{mutation::Mutation, query::Query, scope::AccountScope};
use crate::{auth::Viewer, store::Store};

/// How deep a query may nest: introspection as tools ask for it needs 15.
const MAX_DEPTH: usize = 16;

/// How many directives one field may have.
const MAX_DIRECTIVES: usize = 20;

/// The schema with its resolvers.
#[derive(Clone)]
pub struct Schema(async_graphql::Schema<Query, Mutation, EmptySubscription>);

/// What resolvers know of the request they work for.
pub(super) struct RequestContext {
    pub(super) viewer: Viewer,
    pub(super) scope: AccountScope,
}

impl Schema {
    /// Builds the schema.
    #[must_use]
    pub fn build() -> Self {
        let schema = async_graphql::Schema::build(Query, Mutation, EmptySubscription)
            .limit_depth(MAX_DEPTH)
            .limit_directives(MAX_DIRECTIVES)
            .finish();
        Self(schema)
    }

    /// The schema in GraphQL's own language, as committed in `schema.graphql`.
    #[must_use]
    pub fn sdl(&self) -> String {
        self.0.sdl()
    }

    /// Answers a request that came `now` as its viewer may see it.
    pub async fn execute(
        &self,
        request: Request,
        viewer: Viewer,
        store: &Store,
        now: DateTime<Utc>,
    ) -> Response {
        let scope = AccountScope::new(&viewer, store.for_viewer(&viewer), now);
        self.0.execute(request.data(RequestContext { viewer, scope })).await
    }
}

pub(super) fn request<'a>(context: &Context<'a>) -> &'a RequestContext {
    context.data_unchecked::<RequestContext>()
}
