//! `/`, for users who open the server's URL in a browser: the dashboard, or the front page if the server has
//! no dashboard.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};

use super::{
    dashboard,
    page::{ErrorPage, Page, csrf_field, escape},
};
use crate::http::server::state::AppState;

pub(crate) async fn get(State(state): State<AppState>, headers: HeaderMap) -> Result<Response, ErrorPage> {
    if let Some(dashboard) = dashboard::index(&state, &headers) {
        return Ok(dashboard);
    }
    let address = |path| state.site.base.address(path);
    let dashboard_notice = dashboard::missing_dashboard_notice(&state);
    let links = format!(
        "<p>The open analytics server for Dask runs here.</p><ul>\
         <li><a href=\"{}\">GraphiQL</a>: run queries, signed in or with <code>{{\"Authorization\": \
         \"Bearer &lt;token&gt;\"}}</code> in its headers</li>\
         <li><a href=\"{}\">OpenAPI</a>: the REST routes</li>\
         <li><a href=\"{}\">The scheduler plugin</a></li></ul>",
        address("/graphql"),
        address("/api/v1/openapi.json"),
        address("/api/v2/analytics/preload"),
    );
    let session_text = match state.session(&headers).await? {
        Some(session) => {
            let (csrf, name) = (csrf_field(&session), escape(&session.user().name));
            let (password, sign_out) = (address("/password"), address("/sign-out"));
            format!(
                "<p>You are signed in as <strong>{name}</strong>. <a href=\"{password}\">Change your password</a></p>\
                 <form method=\"post\" action=\"{sign_out}\">{csrf}<button>Sign out</button>\
                 <button name=\"everywhere\" value=\"1\">Sign out everywhere</button></form>"
            )
        }
        None => format!("<p><a href=\"{}\">Sign in</a></p>", address("/sign-in")),
    };
    let page = Page::new(
        concat!("Galvo ", env!("CARGO_PKG_VERSION")),
        format!("{links}{dashboard_notice}{session_text}"),
    );
    Ok(page.into_response())
}
