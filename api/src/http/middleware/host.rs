//! The check of the `Host` header, against DNS rebinding.
//!
//! A page of another origin can make its own host name resolve to this server. The browser then treats
//! both as one origin and lets the page read the responses. Pages, requests with a cookie, and metrics
//! are therefore served only under the known names of this server. Requests with credentials of their
//! own are served under any name: no page holds such credentials, and container networks and proxies use
//! names that are configured nowhere.
//!
//! IP addresses are allowed: they cannot be made to resolve elsewhere.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::csrf;
use crate::{
    config::ServeConfig,
    domain::{public_url::PublicUrl, visible_text::visible},
    http::{
        extract::problem::Problem,
        pages::{page::ErrorPage, report_page},
        server::state::AppState,
    },
};

/// The size limit of a repeated host, in bytes: a DNS name and a port.
const MAX_DISPLAYED_BYTES: usize = 270;

/// The names of the server, in lower case and without ports: a proxy may forward another port.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    /// The names of the server. None if the server terminates TLS itself: the browser has then compared
    /// the name with the certificate.
    names: Option<Arc<[String]>>,
    /// The host for the contents of performance reports. It serves nothing else.
    reports: Option<String>,
}

impl Hosts {
    pub(crate) fn new(config: &ServeConfig) -> Self {
        let url_host = |url: &PublicUrl| host_name(url.origin().split("://").last().unwrap_or_default());
        let public = config.public_url.as_ref().map(url_host);
        let names = public.into_iter().chain(config.network.hosts.iter().cloned()).collect();
        Self {
            names: config.tls.is_none().then_some(names),
            reports: config.reports_url.as_ref().map(url_host),
        }
    }

    /// Returns true if a request is for the host of performance report contents.
    pub(crate) fn is_report_host(&self, headers: &HeaderMap) -> bool {
        self.reports.is_some() && request_host(headers).map(host_name) == self.reports
    }

    /// Returns true if a request uses an IP address or a local name instead of the server's public name.
    pub(crate) fn uses_local_name(headers: &HeaderMap, public: &PublicUrl) -> bool {
        request_host(headers)
            .map(host_name)
            .is_some_and(|requested_name| requested_name != public.host() && is_unspoofable(&requested_name))
    }

    /// Returns an error if a request uses an unknown name of the server.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(names) = &self.names else { return Ok(()) };
        let Some(host) = request_host(headers) else { return Ok(()) };
        let requested_name = host_name(host);
        if is_unspoofable(&requested_name) || names.contains(&requested_name) {
            return Ok(());
        }
        let displayed_name: String = if requested_name.len() <= MAX_DISPLAYED_BYTES {
            visible(&requested_name).into_owned()
        } else {
            "…".to_owned()
        };
        Err(Problem::unknown_host(format!(
            "unknown host '{displayed_name}': set GALVO_PUBLIC_URL to the address in the browser, and \
             GALVO_HOSTS={displayed_name} if a proxy calls the server by another name"
        )))
    }
}

/// Returns the host of a request. Browsers always send one.
fn request_host(headers: &HeaderMap) -> Option<&str> {
    // A host that is not text matches no name.
    headers.get(header::HOST).map(|host| host.to_str().unwrap_or("?"))
}

/// Returns the name in a `Host` header, without its port and without the final dot of a fully qualified
/// name.
fn host_name(host: &str) -> String {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Returns true for IP addresses and for names of the local machine.
fn is_unspoofable(name: &str) -> bool {
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    address.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost")
}

/// Rejects all requests to the host of performance report contents except those for the contents.
pub(crate) async fn restrict_report_host(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let is_content = report_page::is_content(request.uri().path());
    if !is_content && state.site.hosts.is_report_host(request.headers()) {
        return Problem::not_found().into_response();
    }
    next.run(request).await
}

/// Serves pages only under the names of the server.
pub(crate) async fn check_page_host(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    // A cross-origin form is rejected by the CSRF check instead, whose error names the missing setting.
    let is_foreign = request.method() == Method::POST && csrf::check_same_origin(&state, headers).is_err();
    if !is_foreign
        && !state.site.hosts.is_report_host(headers)
        && let Err(problem) = state.site.hosts.check(headers)
    {
        return ErrorPage(problem).into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn names_are_known_or_of_nobody_else() {
        let names: Arc<[String]> = ["galvo.example".to_owned(), "upstream.internal".to_owned()].into();
        let hosts = Hosts { names: Some(names), reports: Some("reports.example".to_owned()) };
        let headers = |host: &str| {
            HeaderMap::from_iter([(header::HOST, HeaderValue::from_bytes(host.as_bytes()).expect(host))])
        };
        for (host, is_known) in [
            ("galvo.example", true),
            ("GALVO.example.:8443", true),
            ("upstream.internal:8000", true),
            ("localhost:1234", true),
            ("galvo.localhost", true),
            ("127.0.0.1:8000", true),
            ("192.0.2.7", true),
            ("[::1]:8000", true),
            ("[2001:db8::1]", true),
            ("evil.example", false),
            ("evil.galvo.example", false),
            ("galvo.example.evil.example", false),
            ("galvo", false),
            ("127.0.0.1.evil.example", false),
            ("127.1.evil", false),
            ("", false),
            (":8000", false),
            ("localhost:x", false),
            ("gälvo.example", false),
        ] {
            assert_eq!(hosts.check(&headers(host)).is_ok(), is_known, "{host}");
        }
        assert!(hosts.check(&HeaderMap::new()).is_ok(), "no browser asks without a name");
        assert!(hosts.is_report_host(&headers("Reports.example:443")));
        assert!(!hosts.is_report_host(&headers("galvo.example")));
        let tls_hosts = Hosts { names: None, reports: None };
        assert!(tls_hosts.check(&headers("evil.example")).is_ok(), "a certificate is shown for it or is not");
    }
}
