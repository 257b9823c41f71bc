//! `/sign-in/invitation`: the page on which a signed-in user accepts an invitation.
//!
//! The secret is in the fragment of the link, which browsers do not send. The page's script keeps it in the
//! browser's tab while the user signs in, copies it into the form, and removes it from the address. Without
//! the script, the user copies it.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};

use super::{
    page::{ErrorPage, Page, csrf_field, escape},
    sign_in::{receive_own_form, sign_in_address, to_sign_in},
};
use crate::{
    auth::Session,
    domain::{access::AccessError, audit::Actor, token::ApiToken},
    http::{extract::origin::RequestOrigin, server::state::AppState},
    store::UserStore,
};

/// The path of the page.
const PATH: &str = "/sign-in/invitation";

/// The script that keeps the secret, and copies it into the form.
const COPY: &str = "\
const key='galvo-invitation',secret=location.hash.slice(1)||sessionStorage.getItem(key);\
if(secret){\
const field=document.querySelector('[name=secret]');\
history.replaceState(null,'',location.pathname);\
if(field){\
sessionStorage.removeItem(key);\
field.value=secret;\
document.querySelector('label').style.display='none'}\
else sessionStorage.setItem(key,secret)}";

/// Shows the form, or how to sign in first.
pub(crate) async fn get(State(state): State<AppState>, headers: HeaderMap) -> Result<Response, ErrorPage> {
    let page = match state.session(&headers).await? {
        Some(session) => form(&state, &session, ""),
        None => Page::new(
            "Join an account",
            format!(
                "<p>An invitation is accepted by a user of this server. <a href=\"{}\">Sign in</a> to go on.</p>",
                escape(&sign_in_address(&state, PATH))
            ),
        )
        .with_script(COPY),
    };
    Ok(page.into_response())
}

/// Makes the user of the session a member of the account that created the invitation.
pub(crate) async fn post(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ErrorPage> {
    let Some((session, fields)) = receive_own_form(&state, &headers, body).await? else {
        return Ok(to_sign_in(&state, PATH));
    };
    let now = state.clock.timestamp();
    let user = session.user();
    let actor = Actor::in_browser(user, origin, now);
    let user_store = UserStore::of_session(&state.store, &session);
    let result = match ApiToken::parse(fields.text("secret").trim()) {
        Some(secret) => user_store.accept_invitation(&secret, &user.name, &actor, now).await?,
        None => Err(AccessError::NoInvitation),
    };
    let account = match result {
        Ok(account) => account,
        Err(error) => {
            let reason = match error {
                AccessError::AlreadyMember => "you are a member of the account already".to_owned(),
                AccessError::TooMany => "the account has as many members as it can have".to_owned(),
                error => error.to_string(),
            };
            let alert = format!("<p role=\"alert\">Error: {}.</p>", escape(&reason));
            let page = form(&state, &session, &alert).status(StatusCode::UNPROCESSABLE_ENTITY);
            return Ok(page.into_response());
        }
    };
    let membership =
        user_store.current_memberships(now).await?.into_iter().find(|current| current.account.id == account);
    let name = membership.map(|current| current.account.name).unwrap_or_default();
    let text = format!(
        "<p role=\"status\">You are a member of the account <strong>{}</strong> now.</p>",
        escape(&name)
    );
    Ok(Page::new("Invitation accepted", text).with_home_link().into_response())
}

fn form(state: &AppState, session: &Session, alert: &str) -> Page {
    let (action, csrf) = (state.site.base.address(PATH), csrf_field(session));
    let name = escape(&session.user().name);
    let body = format!(
        "{alert}<form method=\"post\" action=\"{action}\">{csrf}\
         <label>The secret of the invitation<input name=\"secret\" autocomplete=\"off\" spellcheck=\"false\" \
         required></label><button>Join the account</button></form><p>You are signed in as {name}.</p>"
    );
    Page::new("Join an account", body).with_script(COPY)
}
