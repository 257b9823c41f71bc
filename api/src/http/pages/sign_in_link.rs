//! `/sign-in/link`: the page on which a user signs in with a link that works once.
//!
//! The secret is in the fragment of the link, which browsers do not send. The page's script copies it into
//! a form and removes it from the address; without the script, the user copies it. Only the form uses up
//! the link: programs that preview links open the page and change nothing.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    page::{ErrorPage, Page},
    sign_in::start_session,
};
use crate::{
    auth::SignInMethod,
    domain::{return_path::ReturnPath, sign_in_link::LinkSecret},
    http::{
        extract::{form::Form, origin::RequestOrigin},
        middleware::csrf,
        server::state::AppState,
    },
};

/// The script that copies the secret into the form.
const COPY: &str = "\
const secret=location.hash.slice(1);\
if(secret){\
document.querySelector('[name=secret]').value=secret;\
document.querySelector('label').style.display='none';\
history.replaceState(null,'',location.pathname)}";

/// Shows the form.
pub(crate) async fn get(State(state): State<AppState>) -> Response {
    form(&state, "").into_response()
}

/// Signs the user of a link in, and redirects to the front page.
pub(crate) async fn post(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ErrorPage> {
    // Without this check, a page of another origin could sign a browser in under another user (login
    // CSRF).
    csrf::check_same_origin(&state, &headers)?;
    let fields = Form::receive(&headers, body, state.timeouts.body_timeout).await?;
    let user = match LinkSecret::parse(fields.text("secret").trim()) {
        Some(secret) => state.sign_in.links.redeem(&secret).await?,
        None => None,
    };
    if let Some(user) = user {
        let front = ReturnPath::sanitize("/");
        return Ok(start_session(&state, &user, SignInMethod::Link, origin, &front).await?);
    }
    tracing::info!(address = %origin.address, "sign-in by link failed");
    let alert = "<p role=\"alert\">Error: the link is not valid. A link works once, within 15 minutes, and \
                 until the server restarts. An operator prints another with <code>galvo user sign-in-link \
                 NAME</code>.</p>";
    let page = form(&state, alert).status(StatusCode::UNAUTHORIZED);
    Ok(page.header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")).into_response())
}

fn form(state: &AppState, alert: &str) -> Page {
    let action = state.site.base.address("/sign-in/link");
    let body = format!(
        "{alert}<form method=\"post\" action=\"{action}\">\
         <label>The part of the link after #<input name=\"secret\" autocomplete=\"off\" spellcheck=\"false\" \
         required></label><button>Sign in</button></form>"
    );
    Page::new("Sign in with a link", body).with_script(COPY)
}
