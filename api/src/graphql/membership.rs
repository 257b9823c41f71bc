//! What a viewer is, and where: their own accounts, of each no more than it takes to choose one.

use async_graphql::{Context, Object, SimpleObject};
use chrono::{DateTime, Utc};

use super::{
    error::ApiError,
    in_place::{Items, in_place},
    member::{AccessUserError, MemberRole},
    schema::{self, RequestContext},
    user_error::UserError,
};
use crate::{
    domain::{access::AccessError, token::ApiToken},
    store::{Standing, UserStore},
};

/// An account of the viewer's, and what the viewer is in it.
pub(super) struct Membership {
    standing: Standing,
    is_default: bool,
}

/// An account of the viewer's, and what the viewer is in it. Its data are read by signing in to it, which the header
/// `Galvo-Account` does.
#[Object]
impl Membership {
    /// The account's short name in URLs.
    async fn slug(&self) -> &str {
        &self.standing.account.slug
    }

    /// The account's name for people.
    async fn name(&self) -> &str {
        &self.standing.account.name
    }

    /// What the viewer may do in it.
    async fn role(&self) -> MemberRole {
        self.standing.membership.role.into()
    }

    /// Since when the viewer is a member, by the server's clock.
    async fn since(&self) -> DateTime<Utc> {
        self.standing.membership.created_at.0
    }

    /// Until when a guest is a member; null for everybody else.
    async fn until(&self) -> Option<DateTime<Utc>> {
        self.standing.membership.ends_at.map(|end| end.0)
    }

    /// Whether it is the account that is meant when none is named: the one that was chosen, or else the first one.
    async fn is_default(&self) -> bool {
        self.is_default
    }
}

in_place! { Membership: slug, name, role, since, until, is_default }

/// The outcome of `acceptInvitation`.
#[derive(SimpleObject)]
pub(super) struct AcceptInvitationPayload {
    /// What the viewer is now; null when nothing was changed.
    membership: Option<Membership>,
    /// Why nothing was changed; empty when it was.
    user_errors: Vec<AccessUserError>,
}

/// The outcome of `setDefaultAccount`.
#[derive(SimpleObject)]
pub(super) struct SetDefaultAccountPayload {
    /// All accounts of the viewer, as they are now.
    memberships: Items<Membership>,
    /// What was wrong with the input; nothing is changed unless it is empty.
    user_errors: Vec<UserError>,
}

/// The accounts that the viewer's credentials open, the default one first.
pub(super) async fn memberships(context: &Context<'_>) -> Result<Items<Membership>, ApiError> {
    let RequestContext { viewer, user, scope, .. } = schema::request(context);
    match user {
        Some(user) => Ok(Items(all(user.standings(scope.now.into()).await?))),
        None => Ok(Items(all(vec![viewer.standing().clone()]))),
    }
}

pub(super) async fn accept_invitation(
    context: &Context<'_>,
    secret: &str,
) -> Result<AcceptInvitationPayload, ApiError> {
    let (user, RequestContext { viewer, scope, actor, .. }) = (own(context)?, schema::request(context));
    let now = scope.now.into();
    let accepted = match ApiToken::parse(secret) {
        Some(secret) => user.accept_invitation(&secret, &viewer.user().name, actor, now).await?,
        None => Err(AccessError::NoInvitation),
    };
    match accepted {
        Ok(account) => {
            let mut memberships = all(user.standings(now).await?).into_iter();
            let membership = memberships.find(|membership| membership.standing.account.id == account);
            Ok(AcceptInvitationPayload { membership, user_errors: Vec::new() })
        }
        Err(error) => {
            let user_errors = vec![AccessUserError::new("secret", error)];
            Ok(AcceptInvitationPayload { membership: None, user_errors })
        }
    }
}

pub(super) async fn set_default_account(
    context: &Context<'_>,
    slug: &str,
) -> Result<SetDefaultAccountPayload, ApiError> {
    let (user, RequestContext { scope, actor, .. }) = (own(context)?, schema::request(context));
    let now = scope.now.into();
    let standings = user.standings(now).await?;
    let chosen = standings.iter().find(|standing| standing.account.slug == slug);
    let chosen = chosen.ok_or(ApiError::NotFound("account"))?.account.id;
    user.set_default_account(chosen, actor).await?;
    let memberships = Items(all(user.standings(now).await?));
    Ok(SetDefaultAccountPayload { memberships, user_errors: Vec::new() })
}

/// The viewer's own view of their accounts, for those whose credentials are their own and restricted to nothing.
fn own<'a>(context: &Context<'a>) -> Result<&'a UserStore, ApiError> {
    let RequestContext { viewer, user, .. } = schema::request(context);
    let forbidden =
        || ApiError::Forbidden("the credentials do not stand for the user in all accounts".to_owned());
    user.as_ref().filter(|_| viewer.is_unrestricted()).ok_or_else(forbidden)
}

fn all(standings: Vec<Standing>) -> Vec<Membership> {
    let numbered = standings.into_iter().enumerate();
    numbered.map(|(number, standing)| Membership { standing, is_default: number == 0 }).collect()
}
