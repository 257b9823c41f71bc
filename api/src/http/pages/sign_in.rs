//! `/sign-in`, `/sign-out` and `/password`: the pages by which users start and end a session in a
//! browser.

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use uuid::Uuid;

use super::page::{ErrorPage, Page, csrf_field, escape, hidden};
use crate::{
    app::SignInError,
    auth::{Session, SignInMethod},
    domain::{
        audit::Origin,
        device::{Device, KNOWN_DEVICE_LIFETIME},
        return_path::ReturnPath,
    },
    http::{
        extract::{
            cookie,
            encrypted_text::{self, Purpose},
            form::{Form, parameter},
            origin::RequestOrigin,
            problem::Problem,
        },
        middleware::csrf,
        server::state::AppState,
    },
};

/// Shows the login form.
pub(crate) async fn get(
    State(state): State<AppState>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ErrorPage> {
    let return_path =
        ReturnPath::sanitize_address(&parameter(query.as_deref(), "return_to"), &state.site.base);
    if state.session(&headers).await?.is_some() {
        return Ok(see_other(&state, return_path.as_str()));
    }
    Ok(sign_in_form(&state, &return_path, "", None).into_response())
}

/// Signs in with a name and a password, and redirects to the page from which the browser came.
pub(crate) async fn post(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ErrorPage> {
    // Without this check, a page of another origin could sign a browser in under another user (login
    // CSRF).
    csrf::check_same_origin(&state, &headers)?;
    let mut fields = Form::receive(&headers, body, state.timeouts.body_timeout).await?;
    let return_path = ReturnPath::sanitize_address(fields.text("return_to"), &state.site.base);
    let (name, password) = (fields.take("username"), fields.take("password"));
    let device = known_device(&state, &headers);
    match state.sign_in.passwords.authenticate_user(&name, password, origin.address, device).await {
        Ok(user) => Ok(start_session(&state, &user, SignInMethod::Password, origin, &return_path).await?),
        Err(error) => error_response(error, |alert| sign_in_form(&state, &return_path, &name, Some(alert))),
    }
}

/// Ends the session of this browser, or all sessions of its user.
pub(crate) async fn sign_out(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ErrorPage> {
    if let Some((session, form)) = receive_own_form(&state, &headers, body).await? {
        match form.text("everywhere") {
            "" => state.sign_in.sessions.end(&session).await?,
            _ => state.sign_in.sessions.end_all(&session, origin).await?,
        }
    }
    let mut response = see_other(&state, "/sign-in");
    response
        .headers_mut()
        .append(header::SET_COOKIE, state.site.cookies.remove_cookie(state.site.cookies.session_name()));
    Ok(response)
}

/// Shows the form for changing the password.
pub(crate) async fn password(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Response, ErrorPage> {
    match state.session(&headers).await? {
        Some(session) => Ok(password_form(&state, &session, None).into_response()),
        None => Ok(to_sign_in(&state, "/password")),
    }
}

/// Changes the user's password, and ends the user's other sessions.
pub(crate) async fn change_password(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ErrorPage> {
    let Some((session, mut form)) = receive_own_form(&state, &headers, body).await? else {
        return Ok(to_sign_in(&state, "/password"));
    };
    let (current_password, new_password) = (form.take("old"), form.take("new"));
    match state.sign_in.passwords.change_password(&session, current_password, new_password, origin).await {
        Ok(()) => {
            let message = "<p role=\"status\">Your password was changed. All other browsers were signed \
                        out.</p>";
            Ok(Page::new("Password changed", message).with_home_link().into_response())
        }
        Err(error) => error_response(error, |alert| password_form(&state, &session, Some(alert))),
    }
}

/// Starts the session of an authenticated user, and redirects the browser to its destination.
pub(crate) async fn start_session(
    state: &AppState,
    user: &entity::user::Model,
    method: SignInMethod,
    origin: Origin,
    return_path: &ReturnPath,
) -> Result<Response, Problem> {
    let secret = state.sign_in.sessions.start(user, method, origin).await?;
    let cookie = state.site.cookies.set_cookie(
        state.site.cookies.session_name(),
        &secret.cookie_value(),
        state.sign_in.session_lifetimes.absolute,
    );
    let device =
        Device { id: Uuid::new_v4(), user: user.name.clone(), since: state.clock.now().timestamp_millis() };
    let device = encrypted_text::encrypt_text(state.store.keys(), Purpose::Device, &device.encode());
    let device =
        state.site.cookies.set_cookie(state.site.cookies.device_name(), &device, KNOWN_DEVICE_LIFETIME);
    let mut response = see_other(state, return_path.as_str());
    response.headers_mut().append(header::SET_COOKIE, cookie);
    response.headers_mut().append(header::SET_COOKIE, device);
    Ok(response)
}

/// Returns the device of a browser with an earlier login.
fn known_device(state: &AppState, headers: &HeaderMap) -> Option<Device> {
    let sealed = cookie::value(headers, state.site.cookies.device_name())?;
    let text = encrypted_text::decrypt_text(state.store.keys(), Purpose::Device, sealed)?;
    Device::decode(&text, state.clock.timestamp())
}

/// Returns the session and the fields of a form that a page of this server sent. Returns None without a
/// session.
pub(crate) async fn receive_own_form(
    state: &AppState,
    headers: &HeaderMap,
    body: Body,
) -> Result<Option<(Session, Form)>, Problem> {
    csrf::check_same_origin(state, headers)?;
    let Some(session) = state.session(headers).await? else { return Ok(None) };
    let form = Form::receive(headers, body, state.timeouts.body_timeout).await?;
    if session.csrf_matches(form.text("csrf")) {
        Ok(Some((session, form)))
    } else {
        Err(Problem::forgery("the form does not belong to this session: reload its page"))
    }
}

/// Redirects a browser to the login page, and from there back to a path of this server.
pub(crate) fn to_sign_in(state: &AppState, return_path: &str) -> Response {
    see_other(state, &with_return_to("/sign-in", state, return_path))
}

/// Returns the address of the login page, from which browsers return to a path of this server.
pub(crate) fn sign_in_address(state: &AppState, return_path: &str) -> String {
    state.site.base.address(&with_return_to("/sign-in", state, return_path))
}

/// Returns a path with the parameter `return_to`, from which browsers return to another path.
fn with_return_to(path: &str, state: &AppState, return_path: &str) -> String {
    let return_address = state.site.base.address(return_path);
    let return_address: String = form_urlencoded::byte_serialize(return_address.as_bytes()).collect();
    format!("{path}?return_to={return_address}")
}

/// Redirects a browser to a path of this server with a GET.
pub(crate) fn see_other(state: &AppState, path: &str) -> Response {
    let location =
        HeaderValue::try_from(state.site.base.address(path)).expect("paths of this server are ASCII");
    let headers =
        [(header::LOCATION, location), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// Shows the form again with the error of an input, or an error page for other failures.
fn error_response(error: SignInError, page: impl FnOnce(&str) -> Page) -> Result<Response, ErrorPage> {
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

fn alert_html(text: Option<&str>) -> String {
    text.map(|text| format!("<p role=\"alert\">Error: {}.</p>", escape(text))).unwrap_or_default()
}

fn sign_in_form(state: &AppState, return_path: &ReturnPath, name: &str, error: Option<&str>) -> Page {
    let provider_link = state.sign_in.oidc.as_ref().map(|provider| {
        let (address, name) = (
            state.site.base.address(&with_return_to("/sign-in/oidc", state, return_path.as_str())),
            escape(provider.name()),
        );
        format!("<p><a href=\"{address}\">Sign in with {name}</a></p>")
    });
    let return_field = hidden("return_to", &state.site.base.address(return_path.as_str()));
    let (provider_link, action) = (provider_link.unwrap_or_default(), state.site.base.address("/sign-in"));
    let (name, alert) = (escape(name), alert_html(error));
    Page::new(
        "Sign in",
        format!(
            "{alert}<form method=\"post\" action=\"{action}\">{return_field}\
             <label>User name<input name=\"username\" autocomplete=\"username\" autocapitalize=\"none\" \
             spellcheck=\"false\" required value=\"{name}\"></label>\
             <label>Password<input name=\"password\" type=\"password\" autocomplete=\"current-password\" required>\
             </label><button>Sign in</button></form>{provider_link}"
        ),
    )
}

fn password_form(state: &AppState, session: &Session, error: Option<&str>) -> Page {
    let (csrf, name, alert) = (csrf_field(session), escape(&session.user().name), alert_html(error));
    let action = state.site.base.address("/password");
    Page::new(
        "Change your password",
        format!(
            "{alert}<form method=\"post\" action=\"{action}\">{csrf}\
             <input type=\"hidden\" name=\"username\" autocomplete=\"username\" value=\"{name}\">\
             <label>Current password<input name=\"old\" type=\"password\" autocomplete=\"current-password\" \
             required></label>\
             <label>New password, at least 12 characters<input name=\"new\" type=\"password\" \
             autocomplete=\"new-password\" minlength=\"12\" required></label>\
             <button>Change password</button></form>\
             <p>You stay signed in here. All other browsers are signed out.</p>"
        ),
    )
}
