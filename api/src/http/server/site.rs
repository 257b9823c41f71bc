//! The addresses of the server, and the rules for requests to them.

use std::sync::Arc;

use axum::http::HeaderValue;

use crate::{
    config::ServeConfig,
    domain::{base_path::BasePath, client_ip::TrustedProxies, public_url::PublicUrl},
    http::{extract::cookie::Cookies, middleware::host::Hosts, pages::dashboard::Dashboard},
};

/// The addresses of the server, and the rules for requests to them.
pub(crate) struct Site {
    /// The prefix of the server's own paths in every URL that it emits.
    pub(crate) base: BasePath,
    /// The configured URL of the server.
    pub(crate) public_url: Option<PublicUrl>,
    /// The origin of the contents of performance reports. `None` if they have no origin of their own.
    pub(crate) reports_url: Option<PublicUrl>,
    /// The hosts that the server answers for.
    pub(crate) hosts: Hosts,
    /// The proxies whose headers are trusted.
    pub(crate) proxies: Arc<TrustedProxies>,
    /// The other origins whose pages may read responses.
    pub(crate) cors_origins: Arc<[HeaderValue]>,
    /// The names and attributes of the server's cookies.
    pub(crate) cookies: Cookies,
    /// The dashboard. `None` if the server has none.
    pub(crate) dashboard: Option<Dashboard>,
}

impl Site {
    /// Creates the site of a configured server.
    pub(crate) fn new(config: &ServeConfig, dashboard: Option<Dashboard>) -> Self {
        let base = config.public_url.as_ref().map(PublicUrl::base).cloned().unwrap_or_default();
        Self {
            cookies: Cookies { secure: config.is_behind_tls(), base: base.clone() },
            base,
            public_url: config.public_url.clone(),
            reports_url: config.reports_url.clone(),
            hosts: Hosts::new(config),
            proxies: Arc::new(config.network.proxies.clone()),
            cors_origins: config.network.cors_origins.clone().into(),
            dashboard,
        }
    }
}
