//! The construction and execution of the schema.

use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use apollo_compiler::validation::Valid;
use async_graphql::{Context, Request, Response, ValidationMode};
use chrono::{DateTime, Utc};
use entity::audit_entry::Action;
use futures::StreamExt;

use super::{
    engine::{
        connection::MAX_ITEMS, error::ApiError, projection::HasOverlappingFields, rate_limit::RateLimit,
        recent_refusals::RecentRefusals, scope::AccountScope,
    },
    mutation::Mutation,
    query::Query,
    subscription::{PayloadContent, ResolvePurpose, Subscription, SubscriptionPlan},
};
use crate::{
    auth::Viewer,
    domain::{
        audit::{Actor, Origin, Target},
        base_path::BasePath,
        permission::Denial,
    },
    guard::Template,
    store::{AccountStore, Store, StoreError, UserStore},
};

/// The maximum nesting of fields and fragments, because the resolution and the search of fields are
/// recursive.
pub(crate) const MAX_NESTING: usize = 30;

/// The error message for a subscription that would decrypt data whose reads are audited.
pub(crate) const AUDITED_READS_REFUSED: &str =
    "code and profiles are not available in subscriptions: use a query";

/// The description of the scalar `DateTime`. It replaces the library's description, which names a Rust type.
const DATE_TIME: &str = "A time with a UTC offset, as in RFC 3339, such as `2026-11-20T12:00:00.250Z`. The server \
                         responds in UTC.";

type Executable = async_graphql::Schema<Query, Mutation, Subscription>;

// All servers share one executable schema; their differences are passed with each request.
static EXECUTABLE: LazyLock<Executable> = LazyLock::new(|| {
    async_graphql::Schema::build(Query, Mutation, Subscription::default())
        // The guard has already validated the document against the whole specification.
        .validation_mode(ValidationMode::Fast)
        .limit_recursive_depth(MAX_NESTING + 2)
        .override_output_type_description::<DateTime<Utc>>(DATE_TIME)
        .finish()
});
static SDL: LazyLock<String> = LazyLock::new(|| EXECUTABLE.sdl());
static VALIDATION_SCHEMA: LazyLock<Valid<apollo_compiler::Schema>> = LazyLock::new(|| {
    apollo_compiler::Schema::parse_and_validate(Schema::sdl(), "schema.graphql")
        .expect("the server's own schema is valid, and a test reads it")
});

/// The schema with its resolvers.
#[derive(Clone)]
pub struct Schema {
    executable: Executable,
    refusals: Arc<RecentRefusals>,
    base: BasePath,
}

/// The context of a request, for its resolvers.
pub(super) struct RequestContext {
    pub(super) viewer: Viewer,
    pub(super) scope: AccountScope,
    /// The user's view of their own accounts. `None` if the credentials are not the user's own.
    pub(super) user: Option<UserStore>,
    /// The viewer as the audit log records it.
    pub(super) actor: Actor,
    pub(super) rate_limit: RateLimit,
}

/// The context of an execution: the viewer, the origin, the time and the remaining rate limit.
#[derive(Clone)]
pub struct ExecutionContext {
    /// The viewer.
    pub viewer: Viewer,
    /// The origin of the request.
    pub origin: Origin,
    /// The remaining points of the viewer.
    pub rate_limit: RateLimit,
    /// The time of arrival of the request.
    pub now: DateTime<Utc>,
}

impl Schema {
    /// Returns the schema for a server below a path, without any recorded refusals.
    pub(crate) fn new(base: BasePath) -> Self {
        Self { executable: EXECUTABLE.clone(), refusals: Arc::default(), base }
    }

    /// Returns the schema in GraphQL's schema definition language, as committed in `schema.graphql`.
    #[must_use]
    pub fn sdl() -> &'static str {
        &SDL
    }

    /// Returns the schema that documents are validated against.
    pub(crate) fn validation_schema() -> &'static Valid<apollo_compiler::Schema> {
        &VALIDATION_SCHEMA
    }

    /// Executes a checked operation with the permissions of its viewer, in its compiled form if it has one.
    pub(crate) async fn execute_template(
        &self,
        template: Template,
        execution: ExecutionContext,
        store: &Store,
    ) -> Response {
        if let Some((compiled, variables)) = template.compiled() {
            let account = store.for_viewer(&execution.viewer);
            if let Some(response) = Box::pin(compiled.run(&account, variables)).await {
                return response;
            }
        }
        Box::pin(self.execute(template.into_request(), execution, store)).await
    }

    /// Executes a request with the permissions of its viewer. It does not validate the document; the
    /// guard does.
    pub async fn execute(&self, request: Request, execution: ExecutionContext, store: &Store) -> Response {
        self.execute_request(request, execution, store, MAX_ITEMS).await
    }

    /// Executes a request of the server itself. Its pages may have up to `max_page` items, more than a
    /// client's, and its result is read as values, so nothing is written as JSON.
    pub(crate) async fn execute_pages(
        &self,
        request: Request,
        execution: ExecutionContext,
        store: &Store,
        max_page: i32,
    ) -> Response {
        self.execute_request(request.data(HasOverlappingFields(true)), execution, store, max_page).await
    }

    async fn execute_request(
        &self,
        request: Request,
        execution: ExecutionContext,
        store: &Store,
        max_page: i32,
    ) -> Response {
        let ExecutionContext { viewer, origin, rate_limit, now } = execution;
        let actor = viewer.actor(origin, now.into());
        let account = store.for_viewer(&viewer).on_behalf_of(actor.clone());
        let scope = self.scope(&viewer, &account, now).with_max_page(max_page);
        let user = store.for_viewer_user(&viewer);
        let context = RequestContext { viewer, scope, user, actor, rate_limit };
        let response = self.executable.execute(request.data(context)).await;
        // The response is withheld until the audited reads are recorded. If that fails, an error is
        // returned instead.
        match account.record_decryptions().await {
            Ok(()) => response,
            Err(error) => Response::from_errors(vec![ApiError::from(error).into_response_error()]),
        }
    }

    fn scope(&self, viewer: &Viewer, store: &AccountStore, now: DateTime<Utc>) -> AccountScope {
        AccountScope::new(viewer, store.clone(), self.refusals.clone(), now, self.base.clone())
    }

    /// Records in the audit log an attempt, over another protocol, at an action that a mutation would
    /// refuse. An attempt that was recorded recently is not recorded again.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub(crate) async fn record_refusal(
        &self,
        viewer: &Viewer,
        store: &AccountStore,
        (action, target, denial): (Action, Target, Denial),
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let scope = self.scope(viewer, store, now);
        scope.record_denial(action, target, denial).await
    }

    /// Plans a subscription with the permissions of its viewer.
    ///
    /// # Errors
    /// Returns the response with the errors if the subscription cannot be planned.
    pub(crate) async fn plan_subscription(
        &self,
        request: Request,
        execution: ExecutionContext,
        store: &Store,
    ) -> Result<SubscriptionPlan, Response> {
        let slot = Arc::new(OnceLock::new());
        let request = request.data(ResolvePurpose::Plan(Arc::clone(&slot)));
        let response = self.resolve_first_payload(request, execution, store).await;
        slot.get().cloned().ok_or_else(|| response.unwrap_or_default())
    }

    /// Writes a payload of a subscription with the permissions of its viewer.
    pub(crate) async fn write_payload(
        &self,
        request: Request,
        content: PayloadContent,
        execution: ExecutionContext,
        store: &Store,
    ) -> Response {
        let request = request.data(ResolvePurpose::Write(Mutex::new(Some(content))));
        self.resolve_first_payload(request, execution, store).await.unwrap_or_default()
    }

    /// Returns the first payload of a subscription, if there is one. A payload is shared by several
    /// subscribers, so no single user can be recorded as its reader. It must therefore contain no data
    /// whose reads are audited.
    async fn resolve_first_payload(
        &self,
        request: Request,
        execution: ExecutionContext,
        store: &Store,
    ) -> Option<Response> {
        let ExecutionContext { viewer, origin, rate_limit, now } = execution;
        let (actor, account) = (viewer.actor(origin, now.into()), store.for_viewer(&viewer));
        let scope = self.scope(&viewer, &account, now);
        let user = store.for_viewer_user(&viewer);
        let context = RequestContext { viewer, scope, user, actor, rate_limit };
        let response = self.executable.execute_stream(request.data(context)).next().await;
        if !account.has_unrecorded_decryptions() {
            return response;
        }
        // The guard refuses such subscriptions as far as the schema shows it; this is the second check.
        Some(Response::from_errors(vec![
            ApiError::Forbidden(AUDITED_READS_REFUSED.to_owned()).into_response_error(),
        ]))
    }
}

pub(super) fn request_context<'a>(context: &Context<'a>) -> &'a RequestContext {
    context.data_unchecked::<RequestContext>()
}
