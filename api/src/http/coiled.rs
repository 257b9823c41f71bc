//! What the published `coiled` client asks before it registers a plugin: who its token is, and where.

use axum::{
    Json,
    body::Body,
    extract::{Path, State},
    http::HeaderMap,
};
use entity::{account, api_token::Scope};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    body::{self, Limits},
    problem::{ErrorBody, Problem},
    state::AppState,
};
use crate::{auth::Viewer, domain::role::covers, store::Standing};

/// The user a token stands for.
#[derive(Serialize, ToSchema)]
pub(super) struct UserBody {
    /// The user's name.
    username: String,
    /// The account that is meant when none is named: of an API token the one it belongs to.
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
    /// Whether the credentials may change things in it.
    is_admin: bool,
    /// Whether it is the one that is meant when none is named.
    is_default_account: bool,
}

impl AccountBody {
    fn of(account: &account::Model) -> Self {
        Self { slug: account.slug.clone(), name: account.name.clone() }
    }
}

/// The accounts that credentials open, the default one first. Of an API token that is the one it belongs to: an admin may
/// have made it for somebody else, whose other accounts are none of the account's business.
async fn opened(state: &AppState, viewer: &Viewer) -> Result<Vec<Standing>, Problem> {
    match state.store.for_user_of(viewer) {
        Some(user) => Ok(user.standings(state.clock.timestamp()).await?),
        None => Ok(vec![viewer.standing().clone()]),
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
    let opened = opened(&state, &viewer).await?;
    let default = opened.first().map_or(viewer.account(), |standing| &standing.account);
    Ok(Json(UserBody { username: viewer.user().name.clone(), default_account: AccountBody::of(default) }))
}

/// Tell which accounts the credentials open
#[utoipa::path(
    get,
    path = "/api/v2/user/me/memberships",
    tag = "coiled",
    security(("token" = [])),
    responses(
        (status = 200, description = "Of an API token the one it belongs to, otherwise all of the user's.", body = [MembershipBody]),
        (status = 401, description = "No valid token.", body = ErrorBody),
    )
)]
pub(super) async fn memberships(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<Vec<MembershipBody>>, Problem> {
    let viewer = state.signed_in(&headers).await?;
    let memberships = opened(&state, &viewer).await?.into_iter().enumerate().map(|(number, standing)| {
        let Standing { account, membership, .. } = standing;
        let is_admin = covers(membership.role, Scope::Admin) && viewer.has_every_scope();
        let is_admin = if account.id == viewer.account_id() { viewer.may(Scope::Admin) } else { is_admin };
        MembershipBody { account: AccountBody::of(&account), is_admin, is_default_account: number == 0 }
    });
    Ok(Json(memberships.collect()))
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
    let is_opened = workspace == viewer.account().slug
        || workspace == NO_WORKSPACE
        || opened(&state, &viewer).await?.iter().any(|standing| standing.account.slug == workspace);
    if is_opened { Ok(Json(UsageBody { has_quota: true })) } else { Err(Problem::not_found()) }
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
    let received = body::announced(&headers, INTERACTION)?.receive(body, state.patience.body).await?;
    let _: InteractionBody = received.parse().await?;
    Ok(Json(InteractionAnswer { kept: false }))
}
