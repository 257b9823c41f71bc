//! `/sign-in/oidc`: to an OpenID provider, and back.

use axum::{
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    address::Source,
    cookie,
    form::parameter,
    page::{Page, Refused, escape},
    problem::Problem,
    sign_in::begin,
    state::AppState,
};
use crate::{
    auth::{AuthError, OidcError, Proof, Returned},
    domain::{
        return_path::ReturnPath,
        sign_in_attempt::{GOOD_FOR, SignInAttempt},
    },
    error::Chain,
};

/// Sends a browser to the provider.
pub(super) async fn get(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let provider = state.oidc.as_ref().ok_or_else(Problem::not_found)?;
    let to = ReturnPath::of(&parameter(query.as_deref(), "return_to"));
    let attempt = SignInAttempt::begin(&mut rand::rng(), to, state.clock.now());
    let address = match provider.address(&attempt).await {
        Ok(address) => address,
        Err(error) => return Ok(failed(&error)),
    };
    let location = HeaderValue::try_from(address.as_str()).expect("addresses are signs of ASCII");
    let cookie = state.cookies.keep(state.cookies.attempt_name(), &attempt.reveal(), GOOD_FOR);
    let headers = [
        (header::LOCATION, location),
        (header::SET_COOKIE, cookie),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// Signs a browser in that the provider sends back.
pub(super) async fn callback(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let provider = state.oidc.as_ref().ok_or_else(Problem::not_found)?;
    let name = state.cookies.attempt_name();
    let attempt =
        cookie::value(&headers, name).and_then(|cookie| SignInAttempt::parse(cookie, state.clock.now()));
    let given = |name: &str| parameter(query.as_deref(), name);
    let returned = Returned { code: given("code"), state: given("state"), issuer: given("iss") };
    let mut response = match attempt {
        Some(attempt) => match state.authenticator.user_of_provider(provider, &attempt, returned).await {
            Ok(Ok(user)) => begin(&state, &user, Proof::Oidc, origin, attempt.return_path()).await?,
            Ok(Err(error)) => failed(&error),
            Err(AuthError::NoAccount) => unknown(),
            Err(error) => return Err(Problem::from(error).into()),
        },
        None => failed(&OidcError::State),
    };
    // Whatever came of it, nobody comes back with it again.
    response.headers_mut().append(header::SET_COOKIE, state.cookies.forget(name));
    Ok(response)
}

/// A page that says what did not work, and how one may sign in all the same.
fn failed(error: &OidcError) -> Response {
    let status = match error {
        OidcError::Away(_) => {
            tracing::warn!(error = %Chain(error), "nobody can sign in with the OpenID provider");
            StatusCode::SERVICE_UNAVAILABLE
        }
        OidcError::State | OidcError::Denied => StatusCode::FORBIDDEN,
        OidcError::Unbelievable(_) | OidcError::Claims(_) => {
            tracing::warn!(error = %Chain(error), "what the OpenID provider says is not believed");
            StatusCode::FORBIDDEN
        }
    };
    let body = format!(
        "<p role=\"alert\">Not done: {}.</p><p><a href=\"/sign-in\">Sign in</a> again, or with a password.</p>",
        escape(&error.to_string())
    );
    Page::new("That did not work", body).status(status).into_response()
}

/// What somebody is told whom the provider knows and nobody here does.
fn unknown() -> Response {
    let body = "<p role=\"alert\">The provider knows you, but you are no member of any account here.</p>\
                <p>Whoever manages an account can make you one. <a href=\"/sign-in\">Sign in</a> with a password.</p>";
    Page::new("You are not known here", body).status(StatusCode::FORBIDDEN).into_response()
}
