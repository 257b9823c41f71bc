//! The viewer of a page about an object of an account: with a session in a browser, or with other
//! credentials.

use axum::{
    http::{HeaderMap, header},
    response::Response,
};
use entity::api_token::Scope;

use super::{
    credentials::Credentials, form::parameter, problem::Problem, rate_limit::LimitKeys, sign_in::to_sign_in,
    state::AppState,
};
use crate::{
    auth::Viewer,
    domain::{audit::Origin, slug::Slug},
    store::AccountStore,
};

/// A viewer who may read the account of the page.
pub(super) struct PageViewer {
    pub(super) viewer: Viewer,
    /// The account's store on behalf of the viewer: it audits the decryption of code.
    pub(super) store: AccountStore,
    /// The keys of the rate limiter that is charged for the page.
    pub(super) taker: LimitKeys,
}

impl PageViewer {
    /// Authenticates the viewer of the page at `path` in the account that the parameter `account`
    /// selects, or in the viewer's default account. Returns a redirect to the login page, and from there
    /// back, for a browser without a session.
    pub(super) async fn at(
        state: &AppState,
        origin: Origin,
        headers: &HeaderMap,
        path: &str,
        query: Option<&str>,
    ) -> Result<Result<Self, Response>, Problem> {
        let account = Some(parameter(query, "account")).filter(|account| !account.is_empty());
        let account: Option<Slug> =
            account.map(|account| account.parse()).transpose().map_err(|_| Problem::not_found())?;
        let mut shown = Credentials::of(&state.cookies, headers)?;
        if let Some(account) = &account {
            shown.account = Some(account.as_str().as_bytes().into());
        }
        let viewer = match state.viewer_with(&shown, Scope::Read).await {
            Ok(viewer) => viewer,
            Err(problem) if problem.is_unauthenticated() && !headers.contains_key(header::AUTHORIZATION) => {
                let of = account.map(|account| format!("?account={account}")).unwrap_or_default();
                return Ok(Err(to_sign_in(state, &format!("{path}{of}"))));
            }
            Err(problem) => return Err(problem),
        };
        Self::admitted(state, viewer, origin).map(Ok)
    }

    /// Creates the visitor for an authenticated viewer. Returns an error if the quota of points is used
    /// up.
    pub(super) fn admitted(state: &AppState, viewer: Viewer, origin: Origin) -> Result<Self, Problem> {
        let taker = LimitKeys::new(viewer.limit_key(), origin.address);
        state.query_budget.check(taker)?;
        let store = state.audited_store(&viewer, origin);
        Ok(Self { viewer, store, taker })
    }
}
