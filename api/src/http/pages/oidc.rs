//! `/sign-in/oidc`: the login with an OpenID provider.

use axum::{
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    page::{ErrorPage, Page, escape},
    sign_in::begin_session,
};
use crate::{
    auth::{AuthError, OidcError, RedirectParameters, SignInMethod},
    domain::{
        return_path::ReturnPath,
        sign_in_attempt::{ATTEMPT_LIFETIME, SignInAttempt},
    },
    error::Chain,
    http::{
        extract::{cookie, form::parameter, origin::RequestOrigin, problem::Problem},
        server::state::AppState,
    },
};

/// Redirects a browser to the provider.
pub(crate) async fn get(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ErrorPage> {
    let provider = state.sign_in.oidc.as_ref().ok_or_else(Problem::not_found)?;
    let to = ReturnPath::sanitize_address(&parameter(query.as_deref(), "return_to"), &state.site.base);
    let attempt = SignInAttempt::begin(&mut rand::rng(), to, state.clock.now());
    let address = match provider.address(&attempt).await {
        Ok(address) => address,
        Err(error) => return Ok(failed(&state, &error)),
    };
    let location = HeaderValue::try_from(address.as_str()).expect("addresses are signs of ASCII");
    let cookie =
        state.site.cookies.keep(state.site.cookies.attempt_name(), &attempt.reveal(), ATTEMPT_LIFETIME);
    let headers = [
        (header::LOCATION, location),
        (header::SET_COOKIE, cookie),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((StatusCode::SEE_OTHER, headers).into_response())
}

/// Signs in a browser that the provider redirected back.
pub(crate) async fn callback(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ErrorPage> {
    let provider = state.sign_in.oidc.as_ref().ok_or_else(Problem::not_found)?;
    let name = state.site.cookies.attempt_name();
    let attempt =
        cookie::value(&headers, name).and_then(|cookie| SignInAttempt::parse(cookie, state.clock.now()));
    let given = |name: &str| parameter(query.as_deref(), name);
    let returned = RedirectParameters { code: given("code"), state: given("state"), issuer: given("iss") };
    let mut response = match attempt {
        Some(attempt) => {
            match state.authentication.authenticator.user_of_provider(provider, &attempt, returned).await {
                Ok(Ok(user)) => {
                    begin_session(&state, &user, SignInMethod::Oidc, origin, attempt.return_path()).await?
                }
                Ok(Err(error)) => failed(&state, &error),
                Err(AuthError::NoAccount) => unknown(&state),
                Err(error) => return Err(Problem::from(error).into()),
            }
        }
        None => failed(&state, &OidcError::State),
    };
    // The attempt is used up, whatever its result.
    response.headers_mut().append(header::SET_COOKIE, state.site.cookies.forget(name));
    Ok(response)
}

/// Returns a page with the error and a link to the other ways to sign in.
fn failed(state: &AppState, error: &OidcError) -> Response {
    let status = match error {
        OidcError::ProviderUnavailable(_) => {
            tracing::warn!(
                error = %Chain(error),
                "the OpenID provider is unavailable, so nobody can sign in with it"
            );
            StatusCode::SERVICE_UNAVAILABLE
        }
        OidcError::State | OidcError::Denied => StatusCode::FORBIDDEN,
        OidcError::InvalidIdToken(_) | OidcError::Claims(_) => {
            tracing::warn!(error = %Chain(error), "the OpenID provider's response was rejected");
            StatusCode::FORBIDDEN
        }
    };
    let body = format!(
        "<p role=\"alert\">Error: {}.</p><p><a href=\"{}\">Sign in</a> again, or with a password.</p>",
        escape(&error.to_string()),
        state.site.base.address("/sign-in"),
    );
    Page::new("Sign-in failed", body).status(status).into_response()
}

/// Returns the page for a user who is known to the provider but not to this server.
fn unknown(state: &AppState) -> Response {
    let body = format!(
        "<p role=\"alert\">You signed in at the provider, but you are not a member of any account here.</p>\
         <p>An admin of an account can add you. <a href=\"{}\">Sign in</a> with a password.</p>",
        state.site.base.address("/sign-in"),
    );
    Page::new("No account", body).status(StatusCode::FORBIDDEN).into_response()
}
