//! `/`: what this address is, for a person who opens it in a browser.

use axum::{
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};

use super::{
    page::{Page, Refused, csrf_field, escape},
    state::AppState,
};

const LINKS: &str = "<p>The open analytics server for Dask runs here.</p><ul>\
     <li><a href=\"/graphql\">GraphiQL</a>: ask questions, signed in or with \
     <code>{\"Authorization\": \"Bearer &lt;token&gt;\"}</code> in its headers</li>\
     <li><a href=\"/api/v1/openapi.json\">OpenAPI</a>: the REST routes</li>\
     <li><a href=\"/api/v2/analytics/preload\">The scheduler plugin</a></li></ul>";

pub(super) async fn get(State(state): State<AppState>, headers: HeaderMap) -> Result<Response, Refused> {
    let who = match state.session(&headers).await? {
        Some(session) => {
            let (csrf, name) = (csrf_field(&session), escape(&session.user().name));
            format!(
                "<p>You are signed in as <strong>{name}</strong>. <a href=\"/password\">Change your password</a></p>\
                 <form method=\"post\" action=\"/sign-out\">{csrf}<button>Sign out</button>\
                 <button name=\"everywhere\" value=\"1\">Sign out everywhere</button></form>"
            )
        }
        None => "<p><a href=\"/sign-in\">Sign in</a></p>".to_owned(),
    };
    let page = Page::new(concat!("Galvo ", env!("CARGO_PKG_VERSION")), format!("{LINKS}{who}"));
    Ok(page.into_response())
}
