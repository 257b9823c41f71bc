//! `/sign-in/oidc`: the login with an OpenID provider.

use axum::{
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    page::{ErrorPage, Page, escape},
    sign_in::start_session,
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
    let return_path =
        ReturnPath::sanitize_address(&parameter(query.as_deref(), "return_to"), &state.site.base);
    let attempt = SignInAttempt::begin(&mut rand::rng(), return_path, state.clock.now());
    let address = match provider.authorization_url(&attempt).await {
        Ok(address) => address,
        Err(error) => return Ok(failure_page(&state, &error)),
    };
    let location = HeaderValue::try_from(address.as_str()).expect("URLs are ASCII");
    let cookie =
        state.site.cookies.set_cookie(state.site.cookies.attempt_name(), &attempt.reveal(), ATTEMPT_LIFETIME);
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
    let query_parameter = |name: &str| parameter(query.as_deref(), name);
    let parameters = RedirectParameters {
        code: query_parameter("code"),
        state: query_parameter("state"),
        issuer: query_parameter("iss"),
    };
    let mut response = match attempt {
        Some(attempt) => {
            match state
                .authentication
                .authenticator
                .authenticate_oidc_user(provider, &attempt, parameters)
                .await
            {
                Ok(Ok(user)) => {
                    start_session(&state, &user, SignInMethod::Oidc, origin, attempt.return_path()).await?
                }
                Ok(Err(error)) => failure_page(&state, &error),
                Err(AuthError::NoAccount) => no_account_page(&state),
                Err(error) => return Err(Problem::from(error).into()),
            }
        }
        None => failure_page(&state, &OidcError::State),
    };
    // The attempt is used up, whatever its result.
    response.headers_mut().append(header::SET_COOKIE, state.site.cookies.remove_cookie(name));
    Ok(response)
}

/// Returns a page with the error and a link to the other ways to sign in.
fn failure_page(state: &AppState, error: &OidcError) -> Response {
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
fn no_account_page(state: &AppState) -> Response {
    let body = format!(
        "<p role=\"alert\">You signed in at the provider, but you are not a member of any account here.</p>\
         <p>An admin of an account can add you. <a href=\"{}\">Sign in</a> with a password.</p>",
        state.site.base.address("/sign-in"),
    );
    Page::new("No account", body).status(StatusCode::FORBIDDEN).into_response()
}
