//! Who the client's token is, and in which accounts.

use axum::{Json, extract::State, http::HeaderMap};
use entity::{account, api_token::Scope};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    auth::Viewer,
    domain::role::covers,
    http::{
        problem::{ErrorBody, Problem},
        state::AppState,
    },
    store::Standing,
};

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
pub(super) async fn opened(state: &AppState, viewer: &Viewer) -> Result<Vec<Standing>, Problem> {
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
    let memberships =
        opened(&state, &viewer).await?.into_iter().enumerate().map(|(number, standing)| MembershipBody {
            is_admin: is_admin(&viewer, &standing),
            account: AccountBody::of(&standing.account),
            is_default_account: number == 0,
        });
    Ok(Json(memberships.collect()))
}

/// Whether the credentials may change things in an account that they open.
fn is_admin(viewer: &Viewer, Standing { account, membership, .. }: &Standing) -> bool {
    if account.id == viewer.account_id() {
        viewer.may(Scope::Admin)
    } else {
        covers(membership.role, Scope::Admin) && viewer.has_every_scope()
    }
}

/// The user a token stands for, as older clients read it.
#[derive(Serialize, ToSchema)]
pub(super) struct InformationBody {
    /// The user's name.
    username: String,
    /// The accounts that the credentials open.
    membership_set: Vec<InformationMembership>,
}

/// An account as one of its members sees it.
#[derive(Serialize, ToSchema)]
pub(super) struct InformationMembership {
    /// The account.
    account: InformationAccount,
    /// Whether the credentials may change things in it.
    is_admin: bool,
}

/// An account, and what is left to it.
#[derive(Serialize, ToSchema)]
pub(super) struct InformationAccount {
    #[serde(flatten)]
    account: AccountBody,
    /// What is left to it.
    active_program: Program,
}

/// What is left to an account.
#[derive(Serialize, ToSchema)]
pub(super) struct Program {
    /// Whether it may go on: always, since nothing here is sold.
    has_quota: bool,
}

impl Program {
    /// What is left to every account.
    pub(super) const OPEN: Self = Self { has_quota: true };
}

/// Tell whom a token stands for, and where, as older clients read it
#[utoipa::path(
    get,
    path = "/api/v1/users/me/",
    tag = "coiled",
    security(("token" = [])),
    responses(
        (status = 200, description = "The user.", body = InformationBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
    )
)]
pub(super) async fn information(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<InformationBody>, Problem> {
    let viewer = state.signed_in(&headers).await?;
    let memberships = opened(&state, &viewer).await?.into_iter().map(|standing| InformationMembership {
        is_admin: is_admin(&viewer, &standing),
        account: InformationAccount {
            account: AccountBody::of(&standing.account),
            active_program: Program::OPEN,
        },
    });
    Ok(Json(InformationBody { membership_set: memberships.collect(), username: viewer.user().name.clone() }))
}
