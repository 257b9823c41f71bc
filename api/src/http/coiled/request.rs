//! A request of the client: its caller, its account and its cost.

use axum::{
    Json,
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
    response::{IntoResponse, Response},
};
use chrono::{DateTime, SecondsFormat, Utc};
use entity::{
    api_token::Scope,
    audit_entry::Action,
    cluster,
    ids::{ClusterId, UserId},
};
use serde::Serialize;
use utoipa::IntoResponses;

use super::paging;
use crate::{
    auth::AuthError,
    domain::{
        audit::Target,
        permission::{Denial, Permission, Reach},
    },
    guard::AUDIT_ENTRY_COST,
    http::{
        extract::{
            caller::Caller,
            credentials::Credentials,
            form::parameter,
            origin::RequestOrigin,
            problem::{ErrorBody, Problem},
        },
        server::state::AppState,
    },
    store::{AccountStore, StoreError, core::page::Slice},
};

/// The client's placeholder for an account's short name if it knows none.
pub(super) const NO_WORKSPACE: &str = "None";

/// The cost in points of a request without its response.
const REQUEST_COST: u64 = 100;

/// A request of a viewer who may read the account in the path.
pub(super) struct CoiledRequest {
    pub(super) state: AppState,
    pub(super) caller: Caller,
    /// The account's store on behalf of the viewer: it audits the decryption of code.
    pub(super) store: AccountStore,
    path: Vec<(String, String)>,
    query: Option<String>,
}

/// The error responses of every read route.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it only describes responses")]
pub(super) enum Refusals {
    /// The token is missing or invalid.
    #[response(status = 401)]
    Unauthenticated(ErrorBody),
    /// The token lacks the scope `read`, or belongs to another account.
    #[response(status = 403)]
    Forbidden(ErrorBody),
    /// The quota of points is used up. See `Retry-After`.
    #[response(status = 429)]
    RateLimited(ErrorBody),
    /// An internal error. `reference` identifies it in the server's log.
    #[response(status = 500)]
    Defect(ErrorBody),
    /// The database is unavailable. See `Retry-After`.
    #[response(status = 503)]
    Unavailable(ErrorBody),
    /// The request took too long.
    #[response(status = 504)]
    Deadline(ErrorBody),
}

/// A response and its cost in points: one point per value, as for GraphQL fields.
pub(super) struct CoiledResponse<T> {
    pub(super) body: T,
    pub(super) cost: u64,
}

impl<T> CoiledResponse<T> {
    /// Creates a response that is not a list.
    pub(super) fn one(body: T) -> Self {
        Self { body, cost: 0 }
    }
}

impl<T> CoiledResponse<Vec<T>> {
    /// Creates a list whose rows have this number of values each.
    pub(super) fn list(rows: Vec<T>, values: u64) -> Self {
        Self { cost: values * rows.len() as u64, body: rows }
    }

    /// Creates a list of a slice. The skipped rows add to its cost.
    pub(super) fn slice(rows: Vec<T>, values: u64, slice: Slice) -> Self {
        let Self { body, cost } = Self::list(rows, values);
        Self { body, cost: cost + paging::offset_cost(slice) }
    }
}

impl FromRequestParts<AppState> for CoiledRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let Ok(RequestOrigin(origin)) = RequestOrigin::from_request_parts(parts, state).await;
        // A path that is not UTF-8 selects no account.
        let path = RawPathParams::from_request_parts(parts, state).await.map_err(|_| Problem::not_found())?;
        let path: Vec<(String, String)> =
            path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut credentials = Credentials::of(&state.site.cookies, &parts.headers)?;
        let workspace = path_parameter(&path, "workspace");
        if workspace != NO_WORKSPACE {
            let header_account = credentials.account.replace(workspace.as_bytes().into());
            if header_account.is_some_and(|account| *account != *workspace.as_bytes()) {
                return Err(AuthError::NoAccount.into());
            }
        }
        let caller = Caller::admit(state, &credentials, origin).await?;
        let store = caller.store(state);
        let query = parts.uri.query().map(str::to_owned);
        Ok(Self { state: state.clone(), caller, store, path, query })
    }
}

impl CoiledRequest {
    /// Returns a parameter of the path.
    pub(super) fn path(&self, name: &str) -> &str {
        path_parameter(&self.path, name)
    }

    /// Returns a parameter of the query. Returns None if it is absent or empty.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        Some(parameter(self.query.as_deref(), name)).filter(|text| !text.is_empty())
    }

    /// Answers the request and charges its cost.
    pub(super) async fn answer<T: Serialize>(
        self,
        build_response: impl AsyncFnOnce(&Self) -> Result<CoiledResponse<T>, Problem>,
    ) -> Result<Response, Problem> {
        let Self { state, caller: Caller { limit_keys, .. }, store, .. } = &self;
        let reading = state.query_limiter.begin_reading(*limit_keys);
        let response = tokio::time::timeout(state.operations.timeout, async {
            let response = build_response(&self).await?;
            // The audit entry precedes the response. Without the entry, nothing is returned.
            let audit_cost = if store.has_unrecorded_decryptions() { AUDIT_ENTRY_COST } else { 0 };
            store.record_decryptions().await?;
            Ok::<_, Problem>(CoiledResponse { cost: response.cost + audit_cost, ..response })
        });
        let CoiledResponse { body, cost } =
            response.await.map_err(|_| Problem::deadline(state.operations.timeout))??;
        reading.accept();
        state.query_limiter.charge(*limit_keys, REQUEST_COST + cost, state.clock.timestamp());
        Ok(state.query_limiter.set_headers(*limit_keys, Json(body).into_response()))
    }

    /// Returns the cluster with a number from the path or a parameter.
    pub(super) async fn cluster(&self, number: &str) -> Result<cluster::Model, Problem> {
        let id: ClusterId = number.parse().map_err(|_| no_cluster())?;
        self.store.clusters_by_id(&[id]).await?.pop().ok_or_else(no_cluster)
    }

    /// Returns the user that the parameter `user` names, or an empty list if there is none. Returns None
    /// without the parameter, which selects all users.
    pub(super) async fn users(&self) -> Result<Option<Vec<UserId>>, Problem> {
        let Some(name) = self.parameter("user") else { return Ok(None) };
        if name == self.caller.viewer.user().name {
            return Ok(Some(vec![self.caller.viewer.user_id()]));
        }
        Ok(Some(self.store.member_named(&name).await?.into_iter().collect()))
    }

    /// Returns the start time from the parameter `since`, in milliseconds. The parameter is an age in
    /// seconds.
    pub(super) fn since(&self) -> Result<Option<i64>, Problem> {
        let Some(text) = self.parameter("since") else { return Ok(None) };
        let seconds = text.parse().ok().filter(|seconds| (0.0..=MAX_AGE).contains(seconds));
        let seconds: f64 = seconds.ok_or_else(|| {
            Problem::parameter("since", "must be an age in seconds, from 0 to 10,000,000,000")
        })?;
        #[expect(clippy::cast_possible_truncation, reason = "the value is bounded")]
        let age = (seconds * 1e3).round() as i64;
        Ok(Some(self.state.clock.timestamp().timestamp_millis() - age))
    }

    /// Returns the user to whom an object must belong for an action; `None` if it may belong to anyone.
    /// Returns an error if the action is not allowed for any object. The refusal is audited, as for a
    /// mutation.
    pub(super) async fn authorize_own(
        &self,
        permission: Permission,
        action: Action,
    ) -> Result<Option<UserId>, Problem> {
        let rights = self.caller.viewer.rights();
        if rights.reach(permission) == Reach::Nothing {
            return Err(self.deny(action, Target::Account, rights.denial(permission)).await?);
        }
        Ok(rights.required_owner(permission))
    }

    /// Records a refused attempt in the audit log, as a mutation does, and returns its response.
    pub(super) async fn deny(
        &self,
        action: Action,
        target: Target,
        denial: Denial,
    ) -> Result<Problem, Problem> {
        let (attempt, now) = ((action, target, denial), self.state.clock.now());
        self.state.operations.schema.record_refusal(&self.caller.viewer, &self.store, attempt, now).await?;
        Ok(match denial {
            Denial::MissingAdmin => AuthError::MissingScope(Scope::Admin).into(),
            Denial::NarrowToken => Problem::forbidden("MISSING_SCOPE", denial.to_string()),
            Denial::OwnersOnly | Denial::NotOwner => Problem::forbidden("FORBIDDEN", denial.to_string()),
        })
    }
}

fn path_parameter<'a>(path: &'a [(String, String)], name: &str) -> &'a str {
    path.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
}

/// A few centuries, in seconds.
const MAX_AGE: f64 = 1e10;

/// Returns the client's own message: the client searches it for `not found`.
pub(super) fn no_cluster() -> Problem {
    Problem::missing("cluster not found")
}

/// Converts a store error. A request for more data than the limit is the client's error, not an internal
/// one.
pub(super) fn bounded(error: StoreError) -> Problem {
    match error {
        StoreError::TooLarge(message) => Problem::parameters(message),
        error => error.into(),
    }
}

/// Returns the decrypted value. Returns None if its encryption key is lost.
pub(super) fn decrypted_or_none<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Err(StoreError::Decryption(_)) => Ok(None),
        result => result.map(Some),
    }
}

/// Formats a time so that `datetime.fromisoformat` of every Python version reads it.
pub(super) fn iso(at: impl Into<DateTime<Utc>>) -> String {
    at.into().to_rfc3339_opts(SecondsFormat::Millis, false)
}
