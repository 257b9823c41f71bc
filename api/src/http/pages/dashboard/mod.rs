//! The web dashboard: a build of `web/`, its files, and the addresses at which a browser gets its page.
//!
//! The page has an address below each account, so that every view can be shared. Accounts therefore have
//! no names that are first segments of the server's own paths (`domain/base_path.rs`). The page contains
//! no data: its script asks the API with the session of the browser.

mod bundle;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};

pub use self::bundle::{Dashboard, DashboardError};
use super::{page::Page, static_file::Caching};
use crate::{
    domain::{base_path::is_reserved, slug::Slug},
    http::{
        extract::{media_type::Accepted, path::PathParams, problem::Problem},
        server::{router::respond_not_found, state::AppState},
    },
};

/// The policy of the page. It allows only files and data of this server, and no code or style in the
/// page itself. `base-uri` allows the server's own path, which the page's `<base>` element names.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'self'; \
                      frame-ancestors 'none'";

/// Returns the path of a cluster in the dashboard. None without a dashboard, and for an account that has
/// no address there because of its name.
pub(crate) fn cluster_path(state: &AppState, account: &str, number: i64) -> Option<String> {
    let has_address = state.site.dashboard.is_some() && !is_reserved(account);
    has_address.then(|| format!("/{account}/clusters/{number}"))
}

/// Returns the path of a cluster's page: in the dashboard, or the server's own page.
pub(crate) fn cluster_page_path(state: &AppState, account: &str, number: i64) -> String {
    let path = cluster_path(state, account, number);
    path.unwrap_or_else(|| format!("/clusters/{number}?account={account}"))
}

/// Serves a file whose name contains a hash of its content.
pub(crate) async fn asset(
    State(state): State<AppState>,
    PathParams(name): PathParams<String>,
    headers: HeaderMap,
) -> Response {
    let file = state.site.dashboard.as_ref().and_then(|dashboard| dashboard.file(&format!("assets/{name}")));
    let Some(file) = file else { return Problem::not_found().into_response() };
    with_policy(file.respond(&headers, Caching::Immutable))
}

/// Responds to a path without a route: with a file, with the page for an address of the dashboard, or
/// with 404.
pub(crate) async fn respond(State(state): State<AppState>, request: Request) -> Response {
    let (path, headers) = (request.uri().path(), request.headers());
    if [Method::GET, Method::HEAD].contains(request.method()) {
        let name = path.strip_prefix('/').unwrap_or_default();
        let file = state.site.dashboard.as_ref().and_then(|dashboard| dashboard.file(name));
        if let Some(file) = file {
            return with_policy(file.respond(headers, Caching::Revalidated));
        }
        if is_view(path) && Accepted::of(headers).names("text/html") {
            let mut response = respond_with_page(&state, headers);
            response.headers_mut().append(header::VARY, HeaderValue::from_name(header::ACCEPT));
            return response;
        }
    }
    respond_not_found(path).into_response()
}

fn respond_with_page(state: &AppState, headers: &HeaderMap) -> Response {
    if let Err(problem) = state.site.hosts.check(headers) {
        return problem.into_response();
    }
    index(state, headers).unwrap_or_else(|| {
        let page = Page::new("Dashboard", missing_dashboard_notice(state))
            .status(StatusCode::NOT_FOUND)
            .with_home_link();
        page.render(&state.site.base)
    })
}

/// Returns the page of the dashboard. None without a dashboard.
pub(crate) fn index(state: &AppState, headers: &HeaderMap) -> Option<Response> {
    let page = state.site.dashboard.as_ref()?.index();
    let mut response = with_policy(page.respond(headers, Caching::Revalidated));
    let headers = response.headers_mut();
    // Browsers that send no referrer also send no origin with forms, and the CSRF check needs the origin.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    );
    Some(response)
}

/// Returns a paragraph that says how to get the dashboard. Empty if the server has it.
pub(crate) fn missing_dashboard_notice(state: &AppState) -> &'static str {
    if state.site.dashboard.is_some() {
        return "";
    }
    "<p>This server was built without the web dashboard and GraphiQL. To get it, run <code>npm ci</code> and \
     <code>npm run build</code> in the directory <code>web</code> of the sources, and build the server \
     again; or set <code>GALVO_DASHBOARD_DIR</code> to a build of it.</p>"
}

/// Adds the page's security policy to a response. Scripts need it too: a worker has the policy of its script.
fn with_policy(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// Returns true for the path of a view: its first segment is the name of an account, or could be one.
fn is_view(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    path.starts_with('/') && !path.starts_with("//") && first.parse::<Slug>().is_ok() && !is_reserved(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_below_what_can_be_an_account() {
        for path in ["/ada", "/ada/", "/ada/clusters", "/team-1/clusters/7/profile", "/0_x/errors/%20"] {
            assert!(is_view(path), "{path}");
        }
        for path in [
            "/",
            "//ada",
            "/api",
            "/api/v3/x",
            "/assets/x.js",
            "/clusters",
            "/graphql/x",
            "/reports/",
            "/sign-in/x",
            "/.well-known/x",
            "/wp-login.php",
            "/favicon.ico",
            "/Ada",
            "/%61da",
        ] {
            assert!(!is_view(path), "{path}");
        }
    }
}
