//! Requests that somebody else's page makes a browser send: the browser sends its cookies along.
//!
//! A request that changes something and shows a session by its cookie has to come from a page of ours, in two ways: it
//! tells so by what browsers say of themselves (`Origin`, `Sec-Fetch-Site`), and it carries a token that was made for
//! that session, in the header `Galvo-CSRF` or in a field of a form. Credentials in `Authorization` are sent by nobody but
//! who knows them, so requests with them need neither.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{problem::Problem, state::AppState};

/// The header that carries the token of a session.
pub(super) const CSRF: HeaderName = HeaderName::from_static("galvo-csrf");

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses requests to the API that are shown a session by a cookie and are not sent by a page of ours.
pub(super) async fn guard(State(state): State<AppState>, request: Request, next: Next) -> Response {
    match check(&state, request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check(state: &AppState, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::AUTHORIZATION) {
        return Ok(());
    }
    let Some(secret) = state.cookies.session(headers) else { return Ok(()) };
    from_here(state, headers)?;
    if [Method::GET, Method::HEAD, Method::OPTIONS].contains(method) {
        return Ok(());
    }
    let mut tokens = headers.get_all(CSRF).iter();
    match (tokens.next(), tokens.next()) {
        (Some(token), None) if secret.csrf_matches(token.as_bytes()) => Ok(()),
        _ => Err(Problem::forgery("with a session, the header 'Galvo-CSRF' must carry its token")),
    }
}

/// Refuses what a browser says comes from a page of somebody else's. What says nothing of the kind is no browser, or a
/// very old one.
pub(super) fn from_here(state: &AppState, headers: &HeaderMap) -> Result<(), Problem> {
    let foreign = || Problem::forgery("this was sent by a page of another server");
    if let Some(site) = headers.get(SEC_FETCH_SITE)
        && ![&b"same-origin"[..], b"none"].contains(&site.as_bytes())
    {
        return Err(foreign());
    }
    match headers.get(header::ORIGIN) {
        Some(origin) if !is_own(state, headers, origin) => Err(foreign()),
        _ => Ok(()),
    }
}

/// Whether an origin is this server: as its setting says, or without one as the request calls it.
fn is_own(state: &AppState, headers: &HeaderMap, origin: &HeaderValue) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    if let Some(public) = &state.public_url {
        return origin == public.origin();
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = origin.parse::<Uri>().ok().and_then(|origin| origin.into_parts().authority);
    authority.is_some_and(|authority| host.is_some_and(|host| authority.as_str().eq_ignore_ascii_case(host)))
}
