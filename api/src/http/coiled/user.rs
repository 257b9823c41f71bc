//! The user of the client's token, and that user's accounts.

use axum::{Json, extract::State, http::HeaderMap};
use entity::{account, api_token::Scope};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    auth::Viewer,
    domain::role::covers,
    http::{
        extract::problem::{ErrorBody, Problem},
        server::state::AppState,
    },
    store::CurrentMembership,
};

/// The user of a token.
#[derive(Serialize, ToSchema)]
pub(super) struct UserBody {
    /// The user's name.
    username: String,
    /// The account of a request that selects none. For an API token, the account that it belongs to.
    default_account: AccountBody,
}

/// An account. The client calls it a workspace.
#[derive(Serialize, ToSchema)]
pub(super) struct AccountBody {
    /// The short name, as in URLs.
    slug: String,
    /// The display name.
    name: String,
}

/// An account with the access of one of its members.
#[derive(Serialize, ToSchema)]
pub(super) struct MembershipBody {
    /// The account.
    account: AccountBody,
    /// True if the credentials may change the account.
    is_admin: bool,
    /// True for the account of a request that selects none.
    is_default_account: bool,
}

impl AccountBody {
    fn of(account: &account::Model) -> Self {
        Self { slug: account.slug.clone(), name: account.name.clone() }
    }
}

/// Returns the accounts to which the credentials give access, the default one first. For an API token,
/// that is only its own account: an admin may have created it for another user, whose other accounts
/// must stay hidden.
pub(super) async fn accessible_memberships(
    state: &AppState,
    viewer: &Viewer,
) -> Result<Vec<CurrentMembership>, Problem> {
    match state.store.for_viewer_user(viewer) {
        Some(user) => Ok(user.current_memberships(state.clock.timestamp()).await?),
        None => Ok(vec![viewer.current_membership().clone()]),
    }
}

/// Get the user of a token
#[utoipa::path(
    get,
    path = "/api/v2/user/me",
    tag = "coiled",
    security(("token" = [])),
    responses(
        (status = 200, description = "The user.", body = UserBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
    )
)]
pub(super) async fn me(State(state): State<AppState>, headers: HeaderMap) -> Result<Json<UserBody>, Problem> {
    let viewer = state.authenticate_user(&headers).await?;
    let accessible_memberships = accessible_memberships(&state, &viewer).await?;
    let default = accessible_memberships.first().map_or(viewer.account(), |current| &current.account);
    Ok(Json(UserBody { username: viewer.user().name.clone(), default_account: AccountBody::of(default) }))
}

/// List the accounts to which the credentials give access
#[utoipa::path(
    get,
    path = "/api/v2/user/me/memberships",
    tag = "coiled",
    security(("token" = [])),
    responses(
        (status = 200, description = "For an API token, the account that it belongs to. For other credentials, all accounts of the user.", body = [MembershipBody]),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
    )
)]
pub(super) async fn memberships(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<Vec<MembershipBody>>, Problem> {
    let viewer = state.authenticate_user(&headers).await?;
    let memberships =
        accessible_memberships(&state, &viewer).await?.into_iter().enumerate().map(|(number, current)| {
            MembershipBody {
                is_admin: is_admin(&viewer, &current),
                account: AccountBody::of(&current.account),
                is_default_account: number == 0,
            }
        });
    Ok(Json(memberships.collect()))
}

/// Returns true if the credentials may change an account to which they give access.
fn is_admin(viewer: &Viewer, CurrentMembership { account, membership, .. }: &CurrentMembership) -> bool {
    if account.id == viewer.account_id() {
        viewer.may(Scope::Admin)
    } else {
        covers(membership.role, Scope::Admin) && viewer.has_every_scope()
    }
}

/// The user of a token, in the format of older clients.
#[derive(Serialize, ToSchema)]
pub(super) struct InformationBody {
    /// The user's name.
    username: String,
    /// The accounts to which the credentials give access.
    membership_set: Vec<InformationMembership>,
}

/// An account with the access of one of its members.
#[derive(Serialize, ToSchema)]
pub(super) struct InformationMembership {
    /// The account.
    account: InformationAccount,
    /// True if the credentials may change the account.
    is_admin: bool,
}

/// An account and its quota.
#[derive(Serialize, ToSchema)]
pub(super) struct InformationAccount {
    #[serde(flatten)]
    account: AccountBody,
    /// The quota.
    active_program: Program,
}

/// The quota of an account.
#[derive(Serialize, ToSchema)]
pub(super) struct Program {
    /// True if the account may start clusters. Always true: the server has no paid plans.
    has_quota: bool,
}

impl Program {
    /// The quota of every account.
    pub(super) const OPEN: Self = Self { has_quota: true };
}

/// Get the user of a token and their accounts, in the format of older clients
#[utoipa::path(
    get,
    path = "/api/v1/users/me/",
    tag = "coiled",
    security(("token" = [])),
    responses(
        (status = 200, description = "The user.", body = InformationBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
    )
)]
pub(super) async fn information(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<InformationBody>, Problem> {
    let viewer = state.authenticate_user(&headers).await?;
    let memberships =
        accessible_memberships(&state, &viewer).await?.into_iter().map(|current| InformationMembership {
            is_admin: is_admin(&viewer, &current),
            account: InformationAccount {
                account: AccountBody::of(&current.account),
                active_program: Program::OPEN,
            },
        });
    Ok(Json(InformationBody { membership_set: memberships.collect(), username: viewer.user().name.clone() }))
}
