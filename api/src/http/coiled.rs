//! What the published `coiled` client asks before it registers a plugin: who its token is, and where.

use axum::{
    Json,
    body::Body,
    extract::{Path, State},
    http::HeaderMap,
};
use entity::api_token::Scope;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    body::{self, Limits},
    problem::{ErrorBody, Problem},
    state::AppState,
};
use crate::auth::Viewer;

/// The user a token stands for.
#[derive(Serialize, ToSchema)]
pub(super) struct UserBody {
    /// The user's name.
    username: String,
    /// The account the token opens.
    default_account: AccountBody,
}

/// An account; the client calls it a workspace.
#[derive(Serialize, ToSchema)]
pub(super) struct AccountBody {
    /// The short name in URLs.
    slug: String,
    /// The name for people.
    name: String,
}

/// An account as one of its members sees it.
#[derive(Serialize, ToSchema)]
pub(super) struct MembershipBody {
    /// The account.
    account: AccountBody,
    /// Whether the token may change things in it.
    is_admin: bool,
    /// Whether it is the one meant when none is named: a token opens one account only, so always.
    is_default_account: bool,
}

impl AccountBody {
    fn of(viewer: &Viewer) -> Self {
        let account = viewer.account();
        Self { slug: account.slug.clone(), name: account.name.clone() }
    }
}

/// Tell whom a token stands for
#[utoipa::path(
    get,
    path = "/api/v2/user/me",
    tag = "coiled",
    security(("token" = [])),
    responses(
        (status = 200, description = "The user.", body = UserBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
    )
)]
pub(super) async fn me(State(state): State<AppState>, headers: HeaderMap) -> Result<Json<UserBody>, Problem> {
    let viewer = state.signed_in(&headers).await?;
    Ok(Json(UserBody { username: viewer.user().name.clone(), default_account: AccountBody::of(&viewer) }))
}

/// Tell which accounts a token opens
#[utoipa::path(
    get,
    path = "/api/v2/user/me/memberships",
    tag = "coiled",
    security(("token" = [])),
    responses(
        (status = 200, description = "The one account of the token.", body = [MembershipBody]),
        (status = 401, description = "No valid token.", body = ErrorBody),
    )
)]
pub(super) async fn memberships(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<Vec<MembershipBody>>, Problem> {
    let viewer = state.signed_in(&headers).await?;
    let membership = MembershipBody {
        account: AccountBody::of(&viewer),
        is_admin: viewer.may(Scope::Admin),
        is_default_account: true,
    };
    Ok(Json(vec![membership]))
}

/// The word the client has in the place of an account's short name when it knows none.
const NO_WORKSPACE: &str = "None";

/// How large what a client tells of itself may be.
const INTERACTION: Limits = Limits { sent: 256 << 10, inflated: 1 << 20 };

/// What is left to an account.
#[derive(Serialize, ToSchema)]
pub(super) struct UsageBody {
    /// Whether the account may go on: always, since nothing here is sold.
    has_quota: bool,
}

/// Tell what is left to an account
#[utoipa::path(
    get,
    path = "/api/v2/user/account/{workspace}/usage",
    tag = "coiled",
    security(("token" = [])),
    params(("workspace" = String, Path, description = "The account's short name, or `None`.")),
    responses(
        (status = 200, description = "What is left.", body = UsageBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 404, description = "No such account, or not for this token.", body = ErrorBody),
    )
)]
pub(super) async fn usage(
    State(state): State<AppState>,
    Path(workspace): Path<String>,
    headers: HeaderMap,
) -> Result<Json<UsageBody>, Problem> {
    let viewer = state.signed_in(&headers).await?;
    if workspace != viewer.account().slug && workspace != NO_WORKSPACE {
        return Err(Problem::not_found());
    }
    Ok(Json(UsageBody { has_quota: true }))
}

/// What the client tells of a command that was run. Nothing of it is kept.
#[derive(Deserialize, ToSchema)]
#[expect(dead_code, reason = "only read to see whether it is one")]
pub(super) struct InteractionBody {
    /// What was run.
    action: String,
}

/// What became of what a client told.
#[derive(Serialize, ToSchema)]
pub(super) struct InteractionAnswer {
    /// Whether it is kept: never. What people run is theirs.
    kept: bool,
}

/// Take what a client tells of a command that was run, and keep nothing of it
#[utoipa::path(
    post,
    path = "/api/v2/interactions/interaction",
    tag = "coiled",
    security(("token" = [])),
    request_body = InteractionBody,
    responses(
        (status = 200, description = "Heard.", body = InteractionAnswer),
        (status = 400, description = "A value is wrong; `pointer` names it.", body = ErrorBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 413, description = "The body is too large.", body = ErrorBody),
        (status = 415, description = "Not JSON, or a content encoding other than gzip.", body = ErrorBody),
    )
)]
pub(super) async fn interaction(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<InteractionAnswer>, Problem> {
    state.signed_in(&headers).await?;
    let received = body::announced(&headers, INTERACTION)?.receive(body, state.body_patience).await?;
    let _: InteractionBody = received.parse().await?;
    Ok(Json(InteractionAnswer { kept: false }))
}
