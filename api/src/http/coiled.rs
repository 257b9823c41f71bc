//! What the published `coiled` client asks before it registers a plugin: who its token is, and where.

use axum::{Json, extract::State, http::HeaderMap};
use entity::api_token::Scope;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
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
