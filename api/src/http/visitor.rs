//! Who opens a page about something in an account: with a browser that is signed in, or with credentials.

use axum::{
    http::{HeaderMap, header},
    response::Response,
};
use entity::api_token::Scope;

use super::{
    budget::Taker, credentials::Credentials, form::parameter, problem::Problem, sign_in::to_sign_in,
    state::AppState,
};
use crate::{
    auth::Viewer,
    domain::{audit::Origin, slug::Slug},
    store::AccountStore,
};

/// Somebody who may read the account that the page is about.
pub(super) struct Visitor {
    pub(super) viewer: Viewer,
    /// The account, as one who acts in it sees it: what is decrypted of code is written down.
    pub(super) store: AccountStore,
    /// From whose buckets the page is paid.
    pub(super) taker: Taker,
}

impl Visitor {
    /// Who opens the page at `path`, which lies in the account that the parameter `account` names, or else in their default one.
    /// A browser that is not signed in is sent to where it can, and comes back: that is the answer then.
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
        let mut shown = Credentials::of(state.cookies, headers)?;
        if let Some(account) = &account {
            shown.account = Some(account.as_str().as_bytes().into());
        }
        let viewer = match state.viewer_with(&shown, Scope::Read).await {
            Ok(viewer) => viewer,
            Err(problem) if problem.is_unauthenticated() && !headers.contains_key(header::AUTHORIZATION) => {
                let of = account.map(|account| format!("?account={account}")).unwrap_or_default();
                return Ok(Err(to_sign_in(&format!("{path}{of}"))));
            }
            Err(problem) => return Err(problem),
        };
        Self::admitted(state, viewer, origin).map(Ok)
    }

    /// Somebody who has shown who they are, if they have points left.
    pub(super) fn admitted(state: &AppState, viewer: Viewer, origin: Origin) -> Result<Self, Problem> {
        let taker = Taker::new(viewer.limit_key(), origin.address);
        state.query_budget.check(taker)?;
        let store = state.acting(&viewer, origin);
        Ok(Self { viewer, store, taker })
    }
}
