//! The viewer's memberships: the accounts that the credentials open, with the data that is needed to
//! choose one.

use async_graphql::{Context, Object, SimpleObject};
use chrono::{DateTime, Utc};

use super::member::{AccessUserError, MemberRole};
use crate::{
    domain::{access::AccessError, token::ApiToken},
    graphql::{
        engine::{
            error::ApiError,
            projection::{InlineList, inline_fields},
            user_error::UserError,
        },
        schema::{self, RequestContext},
    },
    store::{CurrentMembership, UserStore},
};

/// An account of the viewer, and the viewer's role in it.
pub(crate) struct Membership {
    current: CurrentMembership,
    is_default: bool,
}

/// An account of the viewer, and the viewer's role in it. The account's data is read with a request for
/// that account, selected by the header `Galvo-Account`.
#[Object]
impl Membership {
    /// The account's short name in URLs.
    async fn slug(&self) -> &str {
        &self.current.account.slug
    }

    /// The account's display name.
    async fn name(&self) -> &str {
        &self.current.account.name
    }

    /// The viewer's role in the account.
    async fn role(&self) -> MemberRole {
        self.current.membership.role.into()
    }

    /// The time at which the viewer became a member, by the server's clock.
    async fn since(&self) -> DateTime<Utc> {
        self.current.membership.created_at.0
    }

    /// The end of the viewer's membership as a guest. Null for any other role.
    async fn until(&self) -> Option<DateTime<Utc>> {
        self.current.membership.ends_at.map(|end| end.0)
    }

    /// True if requests that name no account use this one: the account chosen with `setDefaultAccount`,
    /// or else the one with the longest membership.
    async fn is_default(&self) -> bool {
        self.is_default
    }
}

inline_fields! { Membership: slug, name, role, since, until, is_default }

/// The outcome of `acceptInvitation`.
#[derive(SimpleObject)]
pub(crate) struct AcceptInvitationPayload {
    /// The new membership. Null if nothing was changed.
    membership: Option<Membership>,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<AccessUserError>,
}

/// The outcome of `setDefaultAccount`.
#[derive(SimpleObject)]
pub(crate) struct SetDefaultAccountPayload {
    /// All accounts of the viewer, after the change.
    memberships: InlineList<Membership>,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

/// Returns the accounts that the viewer's credentials open, the default one first.
pub(crate) async fn load_memberships(context: &Context<'_>) -> Result<InlineList<Membership>, ApiError> {
    let RequestContext { viewer, user, scope, .. } = schema::request_context(context);
    match user {
        Some(user) => Ok(InlineList(to_memberships(user.current_memberships(scope.now.into()).await?))),
        None => Ok(InlineList(to_memberships(vec![viewer.current_membership().clone()]))),
    }
}

pub(crate) async fn accept_invitation(
    context: &Context<'_>,
    secret: &str,
) -> Result<AcceptInvitationPayload, ApiError> {
    let (user, RequestContext { viewer, scope, actor, .. }) =
        (require_own_credentials(context)?, schema::request_context(context));
    let now = scope.now.into();
    let outcome = match ApiToken::parse(secret) {
        Some(secret) => user.accept_invitation(&secret, &viewer.user().name, actor, now).await?,
        None => Err(AccessError::NoInvitation),
    };
    match outcome {
        Ok(account) => {
            let mut memberships = to_memberships(user.current_memberships(now).await?).into_iter();
            let membership = memberships.find(|membership| membership.current.account.id == account);
            Ok(AcceptInvitationPayload { membership, user_errors: Vec::new() })
        }
        Err(error) => {
            let user_errors = vec![AccessUserError::new("secret", error)];
            Ok(AcceptInvitationPayload { membership: None, user_errors })
        }
    }
}

pub(crate) async fn set_default_account(
    context: &Context<'_>,
    slug: &str,
) -> Result<SetDefaultAccountPayload, ApiError> {
    let (user, RequestContext { scope, actor, .. }) =
        (require_own_credentials(context)?, schema::request_context(context));
    let now = scope.now.into();
    let memberships = user.current_memberships(now).await?;
    let membership = memberships.iter().find(|current| current.account.slug == slug);
    let account = membership.ok_or(ApiError::NotFound("account"))?.account.id;
    user.set_default_account(account, actor).await?;
    let memberships = InlineList(to_memberships(user.current_memberships(now).await?));
    Ok(SetDefaultAccountPayload { memberships, user_errors: Vec::new() })
}

/// Returns the viewer's store of their own accounts. Only unrestricted credentials of the user have one.
pub(crate) fn require_own_credentials<'a>(context: &Context<'a>) -> Result<&'a UserStore, ApiError> {
    let RequestContext { viewer, user, .. } = schema::request_context(context);
    let forbidden =
        || ApiError::Forbidden("the credentials do not stand for the user in all accounts".to_owned());
    user.as_ref().filter(|_| viewer.is_unrestricted()).ok_or_else(forbidden)
}

fn to_memberships(memberships: Vec<CurrentMembership>) -> Vec<Membership> {
    let memberships = memberships.into_iter().enumerate();
    memberships.map(|(index, current)| Membership { current, is_default: index == 0 }).collect()
}
