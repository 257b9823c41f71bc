//! `/activate-token?id=…`: the page on which the user of `coiled login` activates the requested token.
//!
//! Opening the page changes nothing. Only its form does, sent by a user with a session.

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use chrono::TimeDelta;
use entity::{
    api_token::{Scope, Scopes},
    token_request::Model,
};

use super::{
    page::{ErrorPage, Page, csrf_field, escape, hidden, select},
    sign_in::{receive_own_form, to_sign_in},
};
use crate::{
    app::{member::Refusal, token_request},
    auth::Session,
    domain::{
        access::{parse_scopes, scope_name},
        token::ApiToken,
    },
    http::{
        extract::{form::parameter, origin::RequestOrigin, problem::Problem},
        server::state::AppState,
    },
    store::CurrentMembership,
};

/// The lifetimes of a token in days. The first one is preselected.
const DAYS: [(&str, &str); 4] =
    [("365", "a year"), ("90", "90 days"), ("30", "30 days"), ("", "until it is revoked")];

/// Shows a token request, and the form for the decision.
pub(crate) async fn get(
    State(state): State<AppState>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ErrorPage> {
    let identifier = parameter(query.as_deref(), "id");
    let Some(session) = state.session(&headers).await? else {
        return Ok(to_sign_in(&state, &path(&identifier)));
    };
    let Some(request) = find_request(&state, &identifier).await? else { return Ok(missing_request_page()) };
    Ok(decision_form(&state, &session, &request).await?.into_response())
}

/// Stores the decision on a token request.
pub(crate) async fn post(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    body: Body,
) -> Result<Response, ErrorPage> {
    let Some((session, form)) = receive_own_form(&state, &headers, body).await? else {
        return Ok(to_sign_in(&state, &path(&parameter(query.as_deref(), "id"))));
    };
    let Some(request) = find_request(&state, form.text("id")).await? else {
        return Ok(missing_request_page());
    };
    if form.text("decision") != "approve" {
        state.system.remove_token_request(&request.identifier).await?;
        return Ok(
            Page::new("Refused", "<p role=\"status\">The token request was refused.</p>").into_response()
        );
    }
    let account = form.text("account").as_bytes();
    let viewer = state.authentication.authenticator.viewer_of(&session, Some(account)).await?;
    let now = state.clock.timestamp();
    let expires_at = match form.text("days") {
        "" => None,
        days if DAYS.iter().any(|(value, _)| *value == days) => {
            let days = days.parse().map_or(TimeDelta::zero(), TimeDelta::days);
            Some((now.0 + days).into())
        }
        _ => return Err(Problem::malformed("the token cannot be valid for so long").into()),
    };
    let store = state.audited_store(&viewer, origin);
    // A page from before the introduction of this field omits it.
    let chosen_scopes = match form.text("scopes") {
        "" => None,
        scopes => match parse_scopes(scopes) {
            Ok(scopes) => Some(scopes),
            Err(error) => return Err(Problem::malformed(format!("the token's scopes {error}")).into()),
        },
    };
    match token_request::approve(&store, &viewer, request.identifier, chosen_scopes, expires_at, now).await? {
        Ok(token) => {
            let (label, user, account) =
                (escape(&token.label), escape(&viewer.user().name), escape(&viewer.account().slug));
            let limits = match &token.scopes.0[..] {
                scopes if scopes == viewer.scopes() => "",
                [Scope::Ingest] => ", limited to reports of clusters",
                _ => ", limited to the access you chose",
            };
            let message = format!(
                "<p role=\"status\">The token <strong>{label}</strong> is active, with the access of {user} \
                 to the account {account}{limits}.</p><p>The program continues automatically. You can close \
                 this page.</p>"
            );
            Ok(Page::new("Token activated", message).into_response())
        }
        Err(Refusal::NotFound) => Ok(missing_request_page()),
        Err(Refusal::NoMember) => Err(Problem::not_found().into()),
        Err(Refusal::Rules(errors)) => {
            let reasons: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Err(Problem::conflict(format!("the token cannot be created: {}", reasons.join("; "))).into())
        }
    }
}

/// The scopes of a token with their descriptions, from most to least.
const SCOPES: [(&str, &str); 4] = [
    ("ingest read admin", "full access"),
    ("ingest read", "read data and report clusters"),
    ("read", "read data"),
    ("ingest", "only report clusters"),
];

/// Returns the selectable scopes: first all requested ones, then subsets of them.
fn selectable_scopes(requested: Option<&Scopes>) -> Vec<(String, &'static str)> {
    let listed = SCOPES.into_iter().map(|(text, meaning)| (text.to_owned(), meaning));
    let Some(requested) = requested else { return listed.collect() };
    let requested_text = requested.0.iter().copied().map(scope_name).collect::<Vec<_>>().join(" ");
    let is_subset = |text: &str| {
        parse_scopes(text).is_ok_and(|scopes| scopes.iter().all(|scope| requested.0.contains(scope)))
    };
    let unlisted =
        (!SCOPES.iter().any(|(text, _)| *text == requested_text)).then_some((requested_text, "as requested"));
    unlisted.into_iter().chain(listed.filter(|(text, _)| is_subset(text))).collect()
}

/// Returns the requested scopes as the rest of a sentence.
fn requested_scopes_text(requested: Option<&Scopes>) -> &'static str {
    match requested.map(|requested| &requested.0[..]) {
        None => " with your full access",
        Some([Scope::Ingest]) => " that can only report clusters",
        Some([Scope::Read]) => " that can read your data",
        Some([Scope::Ingest, Scope::Read]) => " that can report clusters and read your data",
        Some(_) => " that can read and change your data",
    }
}

/// Returns the page of a request. Returns the front page for an invalid identifier.
fn path(identifier: &str) -> String {
    if ApiToken::is_identifier(identifier) {
        format!("/activate-token?id={identifier}")
    } else {
        "/".to_owned()
    }
}

async fn find_request(state: &AppState, identifier: &str) -> Result<Option<Model>, Problem> {
    if !ApiToken::is_identifier(identifier) {
        return Ok(None);
    }
    Ok(state.system.token_request(identifier, state.clock.timestamp()).await?)
}

/// Returns the page for a request that never existed, has expired, or was decided.
fn missing_request_page() -> Response {
    let text = "<p role=\"alert\">There is no token request at this address. It was already decided, or \
                expired after 10 minutes: start the request again in the program.</p>";
    Page::new("Nothing to activate", text).status(StatusCode::NOT_FOUND).into_response()
}

async fn decision_form(state: &AppState, session: &Session, request: &Model) -> Result<Page, Problem> {
    // A user without a membership is rejected here.
    let viewer = state.authentication.authenticator.viewer_of(session, None).await?;
    let accounts = match state.store.for_viewer_user(&viewer) {
        Some(user_store) => user_store.current_memberships(state.clock.timestamp()).await?,
        None => Vec::new(),
    };
    let accounts = accounts
        .iter()
        .map(|CurrentMembership { account, .. }| (account.slug.as_str(), account.name.as_str()));
    let options = selectable_scopes(request.scopes.as_ref());
    let body = format!(
        "<p>A program requests a token{requested}. Activate it only if you have just started that program \
         yourself, and it shows this code.</p>\
         <dl><dt>Code</dt><dd><code>{identifier}</code></dd><dt>Label</dt><dd>{label}</dd>\
         <dt>Requested</dt><dd>{at} from {address}</dd></dl>\
         <form method=\"post\" action=\"{path}\">{csrf}{id}\
         <label>Account{accounts}</label>\
         <label>Access{scopes}</label>\
         <label>Valid for{days}</label>\
         <button name=\"decision\" value=\"approve\">Activate</button>\
         <button name=\"decision\" value=\"refuse\">Refuse</button></form>\
         <p>You are signed in as {user}.</p>",
        requested = requested_scopes_text(request.scopes.as_ref()),
        scopes = select("scopes", options.iter().map(|(text, meaning)| (text.as_str(), *meaning))),
        identifier = escape(&request.identifier),
        label = escape(&request.label),
        at = request.created_at.0.format("%Y-%m-%d %H:%M:%S UTC"),
        address = escape(&request.address),
        path = escape(&state.site.base.address(&path(&request.identifier))),
        csrf = csrf_field(session),
        accounts = select("account", accounts),
        days = select("days", DAYS.into_iter()),
        id = hidden("id", &request.identifier),
        user = escape(&session.user().name),
    );
    Ok(Page::new("Activate a token", body))
}
