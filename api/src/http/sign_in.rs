//! `/sign-in`, `/sign-out` and `/password`: how people come to a session in a browser, and end it.

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    address::Source,
    forgery,
    form::{Form, parameter},
    page::{Page, Refused, csrf_field, escape, hidden},
    problem::Problem,
    state::AppState,
};
use crate::{
    app::SignInError,
    auth::{Proof, Session},
    domain::{audit::Origin, return_path::ReturnPath},
};

/// The form to sign in with.
pub(super) async fn get(
    State(state): State<AppState>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    let to = ReturnPath::of(&parameter(query.as_deref(), "return_to"));
    if state.session(&headers).await?.is_some() {
        return Ok(see_other(to.as_str()));
    }
    Ok(form(&state, &to, "", None).into_response())
}

/// Signs in with a name and a password, and goes back to where the browser came from.
pub(super) async fn post(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    // Without this a page of somebody else could sign a browser in as them.
    forgery::from_here(&state, &headers)?;
    let mut form_sent = Form::receive(&headers, body, state.body_patience).await?;
    let to = ReturnPath::of(form_sent.text("return_to"));
    let (name, password) = (form_sent.take("username"), form_sent.take("password"));
    match state.sign_ins.user(&name, password, origin.address).await {
        Ok(user) => Ok(begin(&state, &user, Proof::Password, origin, &to).await?),
        Err(error) => refusal(error, |alert| form(&state, &to, &name, Some(alert))),
    }
}

/// Ends the session of this browser, or all of its user's.
pub(super) async fn sign_out(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    if let Some((session, form)) = of_our_page(&state, &headers, body).await? {
        match form.text("everywhere") {
            "" => state.sessions.end(&session).await?,
            _ => state.sessions.end_all(&session, origin).await?,
        }
    }
    let mut response = see_other("/sign-in");
    response.headers_mut().append(header::SET_COOKIE, state.cookies.forget(state.cookies.session_name()));
    Ok(response)
}

/// The form to change one's password with.
pub(super) async fn password(State(state): State<AppState>, headers: HeaderMap) -> Result<Response, Refused> {
    match state.session(&headers).await? {
        Some(session) => Ok(password_form(&session, None).into_response()),
        None => Ok(to_sign_in("/password")),
    }
}

/// Changes one's password, and ends one's other sessions.
pub(super) async fn change_password(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    let Some((session, mut form)) = of_our_page(&state, &headers, body).await? else {
        return Ok(to_sign_in("/password"));
    };
    let (old, new) = (form.take("old"), form.take("new"));
    match state.sign_ins.change_password(&session, old, new, origin).await {
        Ok(()) => {
            let done = "<p role=\"status\">The password is changed. All other browsers were signed out.</p>\
                        <p><a href=\"/\">To the front page</a></p>";
            Ok(Page::new("Password changed", done).into_response())
        }
        Err(error) => refusal(error, |alert| password_form(&session, Some(alert))),
    }
}

/// Signs a browser in whose user proved who they are, and sends it where it wanted to go.
pub(super) async fn begin(
    state: &AppState,
    user: &entity::user::Model,
    proof: Proof,
    origin: Origin,
    to: &ReturnPath,
) -> Result<Response, Problem> {
    let secret = state.sessions.begin(user, proof, origin).await?;
    let cookie =
        state.cookies.keep(state.cookies.session_name(), &secret.reveal(), state.session_life.absolute);
    let mut response = see_other(to.as_str());
    response.headers_mut().append(header::SET_COOKIE, cookie);
    Ok(response)
}

/// The session and the fields of a form that a page of ours has sent; none if nobody is signed in.
pub(super) async fn of_our_page(
    state: &AppState,
    headers: &HeaderMap,
    body: Body,
) -> Result<Option<(Session, Form)>, Problem> {
    forgery::from_here(state, headers)?;
    let Some(session) = state.session(headers).await? else { return Ok(None) };
    let form = Form::receive(headers, body, state.body_patience).await?;
    if session.csrf_matches(form.text("csrf")) {
        Ok(Some((session, form)))
    } else {
        Err(Problem::forgery("the form is not one of this session: open its page again"))
    }
}

/// Sends a browser to sign in, and back to a path of ours.
pub(super) fn to_sign_in(back: &str) -> Response {
    let back: String = form_urlencoded::byte_serialize(back.as_bytes()).collect();
    see_other(&format!("/sign-in?return_to={back}"))
}

/// Sends a browser to a path of ours with a GET.
pub(super) fn see_other(path: &str) -> Response {
    let location = HeaderValue::try_from(path).expect("paths of ours are signs of ASCII");
    let headers =
        [(header::LOCATION, location), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// The page again with what is wrong, or a page of its own when it is not what was typed.
fn refusal(error: SignInError, page: impl FnOnce(&str) -> Page) -> Result<Response, Refused> {
    let text = error.to_string();
    let page = match error {
        SignInError::Store(error) => return Err(error.into()),
        SignInError::Wrong => page(&text)
            .status(StatusCode::UNAUTHORIZED)
            .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
        SignInError::Password(_) => page(&text).status(StatusCode::UNPROCESSABLE_ENTITY),
        SignInError::TooSoon(seconds) => {
            page(&text).status(StatusCode::TOO_MANY_REQUESTS).header(header::RETRY_AFTER, seconds)
        }
    };
    Ok(page.into_response())
}

fn alert(text: Option<&str>) -> String {
    text.map(|text| format!("<p role=\"alert\">Not done: {}.</p>", escape(text))).unwrap_or_default()
}

fn form(state: &AppState, to: &ReturnPath, name: &str, wrong: Option<&str>) -> Page {
    let elsewhere = state.oidc.as_ref().map(|provider| {
        let back: String = form_urlencoded::byte_serialize(to.as_str().as_bytes()).collect();
        let name = escape(provider.name());
        format!("<p><a href=\"/sign-in/oidc?return_to={back}\">Sign in with {name}</a></p>")
    });
    let (elsewhere, to) = (elsewhere.unwrap_or_default(), hidden("return_to", to.as_str()));
    let (name, alert) = (escape(name), alert(wrong));
    Page::new(
        "Sign in",
        format!(
            "{alert}<form method=\"post\" action=\"/sign-in\">{to}\
             <label>User name<input name=\"username\" autocomplete=\"username\" autocapitalize=\"none\" \
             spellcheck=\"false\" required value=\"{name}\"></label>\
             <label>Password<input name=\"password\" type=\"password\" autocomplete=\"current-password\" required>\
             </label><button>Sign in</button></form>{elsewhere}"
        ),
    )
}

fn password_form(session: &Session, wrong: Option<&str>) -> Page {
    let (csrf, name, alert) = (csrf_field(session), escape(&session.user().name), alert(wrong));
    Page::new(
        "Change your password",
        format!(
            "{alert}<form method=\"post\" action=\"/password\">{csrf}\
             <input type=\"hidden\" name=\"username\" autocomplete=\"username\" value=\"{name}\">\
             <label>The password until now<input name=\"old\" type=\"password\" autocomplete=\"current-password\" \
             required></label>\
             <label>The new one, of 12 characters or more<input name=\"new\" type=\"password\" \
             autocomplete=\"new-password\" minlength=\"12\" required></label>\
             <button>Change it</button></form>\
             <p>You stay signed in here. All other browsers are signed out.</p>"
        ),
    )
}
