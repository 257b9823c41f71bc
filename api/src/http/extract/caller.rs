//! The caller of a request, as every route sees it: from credentials to a viewer, and the limits that the
//! request counts against.

use entity::api_token::Scope;

use super::{credentials::Credentials, problem::Problem};
use crate::{
    auth::Viewer, domain::audit::Origin, http::middleware::rate_limit::LimitKeys,
    http::server::state::AppState, store::AccountStore,
};

/// An authenticated caller.
pub(crate) struct Caller {
    pub(crate) viewer: Viewer,
    /// The origin of the request.
    pub(crate) origin: Origin,
    /// The keys of the rate limiters that are charged.
    pub(crate) limit_keys: LimitKeys,
}

impl Caller {
    /// Creates the caller of a request from this origin.
    pub(crate) fn new(viewer: Viewer, origin: Origin) -> Self {
        let limit_keys = LimitKeys::new(viewer.limit_key(), origin.address);
        Self { viewer, origin, limit_keys }
    }

    /// Authenticates the credentials, which must include the scope `read`.
    pub(crate) async fn authenticate(
        state: &AppState,
        credentials: &Credentials,
        origin: Origin,
    ) -> Result<Self, Problem> {
        let viewer = state.viewer_with(credentials, Scope::Read).await?;
        Ok(Self::new(viewer, origin))
    }

    /// Authenticates the credentials, which must include the scope `read`. Returns an error if the quota of
    /// points is used up.
    pub(crate) async fn admit(
        state: &AppState,
        credentials: &Credentials,
        origin: Origin,
    ) -> Result<Self, Problem> {
        let caller = Self::authenticate(state, credentials, origin).await?;
        caller.check_points(state)?;
        Ok(caller)
    }

    /// Returns an error if the quota of points is used up.
    pub(crate) fn check_points(&self, state: &AppState) -> Result<(), Problem> {
        state.query_limiter.check(self.limit_keys)
    }

    /// Returns the account's store on behalf of the caller: it audits changes and the decryption of code.
    pub(crate) fn store(&self, state: &AppState) -> AccountStore {
        state.audited_store(&self.viewer, self.origin)
    }
}
