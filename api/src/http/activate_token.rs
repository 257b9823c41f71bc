//! `/activate-token?id=…`: where whoever runs `coiled login` makes the token theirs that it asked for.
//!
//! Opening the page changes nothing: only its form does, sent by somebody who is signed in.

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use chrono::TimeDelta;
use entity::token_request::Model;

use super::{
    address::Source,
    form::parameter,
    page::{Page, Refused, csrf_field, escape, hidden, select},
    problem::Problem,
    sign_in::{of_our_page, to_sign_in},
    state::AppState,
};
use crate::{
    app::{member::Refusal, token_request},
    auth::Session,
    domain::token::ApiToken,
    store::Standing,
};

/// For how many days the token may be good; the first one is proposed.
const DAYS: [(&str, &str); 4] =
    [("365", "a year"), ("90", "90 days"), ("30", "30 days"), ("", "until it is revoked")];

/// What is asked for, and the form to decide on it.
pub(super) async fn get(
    State(state): State<AppState>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let identifier = parameter(query.as_deref(), "id");
    let Some(session) = state.session(&headers).await? else {
        return Ok(to_sign_in(&path(&identifier)));
    };
    let Some(request) = find(&state, &identifier).await? else { return Ok(gone()) };
    Ok(question(&state, &session, &request).await?.into_response())
}

/// Decides on what is asked for.
pub(super) async fn post(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    body: Body,
) -> Result<Response, Refused> {
    let Some((session, form)) = of_our_page(&state, &headers, body).await? else {
        return Ok(to_sign_in(&path(&parameter(query.as_deref(), "id"))));
    };
    let Some(request) = find(&state, form.text("id")).await? else { return Ok(gone()) };
    if form.text("decision") != "approve" {
        state.system.remove_token_request(&request.identifier).await?;
        return Ok(Page::new("Refused", "<p role=\"status\">Nobody gets this token.</p>").into_response());
    }
    let account = form.text("account").as_bytes();
    let viewer = state.authenticator.viewer_of(&session, Some(account)).await?;
    let now = state.clock.timestamp();
    let expires_at = match form.text("days") {
        "" => None,
        days if DAYS.iter().any(|(known, _)| *known == days) => {
            let days = days.parse().map_or(TimeDelta::zero(), TimeDelta::days);
            Some((now.0 + days).into())
        }
        _ => return Err(Problem::malformed("the token cannot be good for so long").into()),
    };
    let store = state.acting(&viewer, origin);
    match token_request::approve(&store, &viewer, request.identifier, expires_at, now).await? {
        Ok(token) => {
            let (label, user, account) =
                (escape(&token.label), escape(&viewer.user().name), escape(&viewer.account().slug));
            let done = format!(
                "<p role=\"status\">The token <strong>{label}</strong> is good now, for what {user} may do in the account \
                 {account}.</p><p>The program that asked goes on by itself. You can close this page.</p>"
            );
            Ok(Page::new("Token activated", done).into_response())
        }
        Err(Refusal::NotFound) => Ok(gone()),
        Err(Refusal::NoMember) => Err(Problem::not_found().into()),
        Err(Refusal::Rules(errors)) => {
            let reasons: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Err(Problem::conflict(format!("the token cannot be made: {}", reasons.join("; "))).into())
        }
    }
}

/// The page of a request; the front page for what cannot be one.
fn path(identifier: &str) -> String {
    if ApiToken::is_identifier(identifier) {
        format!("/activate-token?id={identifier}")
    } else {
        "/".to_owned()
    }
}

async fn find(state: &AppState, identifier: &str) -> Result<Option<Model>, Problem> {
    if !ApiToken::is_identifier(identifier) {
        return Ok(None);
    }
    Ok(state.system.token_request(identifier, state.clock.timestamp()).await?)
}

/// What one page says of a request that never was, has expired, or was decided on.
fn gone() -> Response {
    let text = "<p role=\"alert\">No token waits under this address. It may have been decided on already, or 10 minutes \
                have gone by: let the program ask again.</p>";
    Page::new("Nothing to activate", text).status(StatusCode::NOT_FOUND).into_response()
}

async fn question(state: &AppState, session: &Session, request: &Model) -> Result<Page, Problem> {
    // Who is a member of none is refused here.
    let viewer = state.authenticator.viewer_of(session, None).await?;
    let accounts = match state.store.for_user_of(&viewer) {
        Some(own) => own.standings(state.clock.timestamp()).await?,
        None => Vec::new(),
    };
    let accounts =
        accounts.iter().map(|Standing { account, .. }| (account.slug.as_str(), account.name.as_str()));
    let body = format!(
        "<p>A program asks for a token that can do all that you can. Activate it only if you have just started that program \
         yourself, and it shows this code.</p>\
         <dl><dt>Code</dt><dd><code>{identifier}</code></dd><dt>Label</dt><dd>{label}</dd>\
         <dt>Asked for</dt><dd>{at} from {address}</dd></dl>\
         <form method=\"post\" action=\"{path}\">{csrf}{id}\
         <label>Account{accounts}</label>\
         <label>Good for{days}</label>\
         <button name=\"decision\" value=\"approve\">Activate</button>\
         <button name=\"decision\" value=\"refuse\">Refuse</button></form>\
         <p>You are signed in as {user}.</p>",
        identifier = escape(&request.identifier),
        label = escape(&request.label),
        at = request.created_at.0.format("%Y-%m-%d %H:%M:%S UTC"),
        address = escape(&request.address),
        path = escape(&path(&request.identifier)),
        csrf = csrf_field(session),
        accounts = select("account", accounts),
        days = select("days", DAYS.into_iter()),
        id = hidden("id", &request.identifier),
        user = escape(&session.user().name),
    );
    Ok(Page::new("Activate a token", body))
}
