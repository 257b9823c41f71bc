//! The services of the pages for signing in.

use std::sync::Arc;

use crate::{
    app::{SignInLinks, SignIns},
    auth::{OidcProvider, Sessions},
    clock::Clock,
    config::ServeConfig,
    domain::session::SessionLifetimes,
    store::SystemStore,
};

/// The services of the pages for signing in.
pub(crate) struct SignInServices {
    /// The sessions of browsers.
    pub(crate) sessions: Sessions,
    /// The lifetimes of new sessions.
    pub(crate) session_lifetimes: SessionLifetimes,
    /// The verification and change of passwords.
    pub(crate) passwords: SignIns,
    /// The links that work once.
    pub(crate) links: SignInLinks,
    /// The OpenID provider. `None` if none is configured.
    pub(crate) oidc: Option<OidcProvider>,
}

impl SignInServices {
    /// Creates the services of a configured server.
    pub(crate) fn new(config: &ServeConfig, system: &SystemStore, clock: &Arc<dyn Clock>) -> Self {
        let oidc = config.oidc.as_ref().zip(config.public_url.as_ref());
        Self {
            sessions: Sessions::new(system.clone(), Arc::clone(clock), config.session_lifetimes),
            session_lifetimes: config.session_lifetimes,
            passwords: SignIns::new(system.clone(), Arc::clone(clock)),
            links: SignInLinks::new(system.clone(), Arc::clone(clock)),
            oidc: oidc.map(|(oidc, public)| OidcProvider::new(oidc, public)),
        }
    }
}
