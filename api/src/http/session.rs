//! `GET /api/v1/session`: what scripts of our own pages need of the session their browser has.

use axum::{Json, extract::State, http::HeaderMap};
use chrono::SecondsFormat;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    problem::{ErrorBody, Problem},
    state::AppState,
};

/// The session of a browser.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionBody {
    /// Who is signed in.
    username: String,
    /// What the header `Galvo-CSRF` has to carry with requests other than GET.
    csrf_token: String,
    /// When the session ends, however much it is used: RFC 3339, in UTC.
    expires_at: String,
}

/// Tell who is signed in with this browser
#[utoipa::path(
    get,
    path = "/api/v1/session",
    tag = "sign-in",
    security(("session" = [])),
    responses(
        (status = 200, description = "The session.", body = SessionBody),
        (status = 401, description = "Nobody is signed in.", body = ErrorBody),
        (status = 403, description = "Sent by a page of another server.", body = ErrorBody),
    )
)]
pub(super) async fn get(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<SessionBody>, Problem> {
    let nobody = || Problem::unauthenticated("nobody is signed in with this browser");
    let session = state.session(&headers).await?.ok_or_else(nobody)?;
    Ok(Json(SessionBody {
        username: session.user().name.clone(),
        csrf_token: session.csrf_token(),
        expires_at: session.expires_at().0.to_rfc3339_opts(SecondsFormat::Secs, true),
    }))
}
