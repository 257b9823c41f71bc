//! The viewer of a page about an object of an account: with a session in a browser, or with other
//! credentials.

use axum::{
    http::{HeaderMap, header},
    response::Response,
};

use super::sign_in::to_sign_in;
use crate::{
    domain::{audit::Origin, slug::Slug},
    http::{
        extract::{caller::Caller, credentials::Credentials, form::parameter, problem::Problem},
        server::state::AppState,
    },
};

/// Authenticates the caller of the page at `path` in the account that the parameter `account` selects, or
/// in the user's default account. Returns a redirect to the login page, and from there back, for a browser
/// without a session. Returns an error if the quota of points is used up.
pub(crate) async fn authenticate(
    state: &AppState,
    origin: Origin,
    headers: &HeaderMap,
    path: &str,
    query: Option<&str>,
) -> Result<Result<Caller, Response>, Problem> {
    let account = Some(parameter(query, "account")).filter(|account| !account.is_empty());
    let account: Option<Slug> =
        account.map(|account| account.parse()).transpose().map_err(|_| Problem::not_found())?;
    let mut credentials = Credentials::of(&state.site.cookies, headers)?;
    if let Some(account) = &account {
        credentials.account = Some(account.as_str().as_bytes().into());
    }
    match Caller::admit(state, &credentials, origin).await {
        Ok(caller) => Ok(Ok(caller)),
        Err(problem) if problem.is_unauthenticated() && !headers.contains_key(header::AUTHORIZATION) => {
            let account_query = account.map(|account| format!("?account={account}")).unwrap_or_default();
            Ok(Err(to_sign_in(state, &format!("{path}{account_query}"))))
        }
        Err(problem) => Err(problem),
    }
}
