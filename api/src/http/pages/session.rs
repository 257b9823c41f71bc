//! `GET /api/v1/session`: the session of the browser, for the scripts of the server's own pages.

use axum::{Json, extract::State, http::HeaderMap};
use chrono::SecondsFormat;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::{
    extract::problem::{ErrorBody, Problem},
    server::state::AppState,
};

/// The session of a browser.
#[derive(Serialize, ToSchema)]
pub(crate) struct SessionBody {
    /// The name of the user who is signed in.
    username: String,
    /// The value of the header `Galvo-CSRF`, which requests other than GET require.
    csrf_token: String,
    /// The absolute end of the session, which use does not extend, in RFC 3339 and UTC.
    expires_at: String,
}

/// Get the session of this browser
#[utoipa::path(
    get,
    path = "/api/v1/session",
    tag = "sign-in",
    security(("session" = [])),
    responses(
        (status = 200, description = "The session.", body = SessionBody),
        (status = 401, description = "The browser has no session.", body = ErrorBody),
        (status = 403, description = "The request comes from a page of another origin.", body = ErrorBody),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<SessionBody>, Problem> {
    let not_signed_in = || Problem::unauthenticated("this browser is not signed in");
    let session = state.session(&headers).await?.ok_or_else(not_signed_in)?;
    Ok(Json(SessionBody {
        username: session.user().name.clone(),
        csrf_token: session.csrf_token(),
        expires_at: session.expires_at().0.to_rfc3339_opts(SecondsFormat::Secs, true),
    }))
}
