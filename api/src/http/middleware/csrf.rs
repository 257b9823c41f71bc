//! CSRF protection: against requests that a page of another origin makes a browser send with its
//! cookies.
//!
//! A state-changing request with a session cookie has to prove in two ways that it comes from the
//! server's own page: by the headers that browsers set (`Origin`, `Sec-Fetch-Site`), and by the
//! session's CSRF token in the header `Galvo-CSRF` or in a field of a form. Requests with an
//! `Authorization` header need neither, because only a caller that knows the credentials can send it.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{
    domain::public_url::PublicUrl,
    http::{extract::problem::Problem, server::state::AppState},
};

/// The header that contains the CSRF token of a session.
pub(crate) const CSRF: HeaderName = HeaderName::from_static("galvo-csrf");

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

const CROSS_ORIGIN: &str = "the request was sent by a page of another server";

/// The size limit in bytes of a header's URL that is repeated in a response: a scheme, a DNS name and a
/// port.
const MAX_URL_BYTES: usize = 270;

/// Rejects API requests with a session cookie that do not come from the server's own page.
pub(crate) async fn check_csrf(State(state): State<AppState>, request: Request, next: Next) -> Response {
    match check(&state, request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check(state: &AppState, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(header::AUTHORIZATION) {
        return Ok(());
    }
    let Some(secret) = state.site.cookies.session(headers) else { return Ok(()) };
    state.site.hosts.check(headers)?;
    check_same_origin(state, headers)?;
    if [Method::GET, Method::HEAD, Method::OPTIONS].contains(method) {
        return Ok(());
    }
    let mut tokens = headers.get_all(CSRF).iter();
    match (tokens.next(), tokens.next()) {
        (Some(token), None) if secret.csrf_matches(token.as_bytes()) => Ok(()),
        _ => Err(Problem::forgery("with a session, the header 'Galvo-CSRF' must carry its token")),
    }
}

/// Returns an error if the browser's headers name another origin. Requests without these headers come
/// from other clients, or from very old browsers.
pub(crate) fn check_same_origin(state: &AppState, headers: &HeaderMap) -> Result<(), Problem> {
    if let Some(site) = headers.get(SEC_FETCH_SITE)
        && ![&b"same-origin"[..], b"none"].contains(&site.as_bytes())
    {
        return Err(Problem::forgery(CROSS_ORIGIN));
    }
    match headers.get(header::ORIGIN) {
        Some(origin) if !is_own(state, headers, origin) => {
            Err(Problem::forgery(origin_mismatch_message(state.site.public_url.as_ref(), headers, origin)))
        }
        _ => Ok(()),
    }
}

/// Returns a message that names the browser's origin, the server's own origin, and the setting that
/// makes both equal: behind a proxy that changes `Host`, every login appears to come from another
/// origin. Of the headers, it repeats only valid URLs.
fn origin_mismatch_message(public: Option<&PublicUrl>, headers: &HeaderMap, origin: &HeaderValue) -> String {
    let Some(origin) = parse_url(origin, "") else { return CROSS_ORIGIN.to_owned() };
    let host = || headers.get(header::HOST).and_then(|host| parse_url(host, "http://"));
    let own_origin = match public {
        Some(public) => public.origin().to_owned(),
        None => host().map_or("another one".to_owned(), |host| host.origin()["http://".len()..].to_owned()),
    };
    let path = public.map_or("", |public| public.base().as_str());
    format!(
        "{CROSS_ORIGIN}: the browser's origin is {origin}, this server's is {own_origin}: set \
         GALVO_PUBLIC_URL={origin}{path} if that is its address"
    )
}

/// Parses the URL in a header. `scheme` is the prefix that the header lacks.
fn parse_url(value: &HeaderValue, scheme: &str) -> Option<PublicUrl> {
    let text = value.to_str().ok().filter(|text| text.len() <= MAX_URL_BYTES)?;
    let url: PublicUrl = format!("{scheme}{text}").parse().ok()?;
    url.base().is_empty().then_some(url)
}

/// Returns true if an origin is this server's: the configured one, or without a configuration the
/// request's `Host`.
fn is_own(state: &AppState, headers: &HeaderMap, origin: &HeaderValue) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    if let Some(public) = &state.site.public_url {
        return origin == public.origin();
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = origin.parse::<Uri>().ok().and_then(|origin| origin.into_parts().authority);
    authority.is_some_and(|authority| host.is_some_and(|host| authority.as_str().eq_ignore_ascii_case(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_is_missing_is_named() {
        let compare = |public: Option<&str>, host: &str, origin: &str| {
            let public: Option<PublicUrl> = public.map(|public| public.parse().expect(public));
            let value = |text: &str| HeaderValue::from_str(text).expect(text);
            let headers = HeaderMap::from_iter([(header::HOST, value(host))]);
            origin_mismatch_message(public.as_ref(), &headers, &value(origin))
        };
        assert_eq!(
            compare(None, "localhost:8101", "https://x:8442"),
            "the request was sent by a page of another server: the browser's origin is https://x:8442, this \
             server's is localhost:8101: set GALVO_PUBLIC_URL=https://x:8442 if that is its address"
        );
        assert_eq!(
            compare(Some("https://y/galvo"), "localhost", "https://x"),
            "the request was sent by a page of another server: the browser's origin is https://x, this \
             server's is https://y: set GALVO_PUBLIC_URL=https://x/galvo if that is its address"
        );
        // Values that are not URLs, or too long, are not repeated.
        let long = format!("https://{}", "a".repeat(MAX_URL_BYTES));
        for origin in ["null", "<script>", "https://x/<b>", "https://x/path", "ftp://x", "https://x y", &long]
        {
            assert_eq!(compare(None, "localhost", origin), CROSS_ORIGIN, "{origin}");
        }
        for host in ["<b>", "x y", "a/b", &long] {
            assert!(compare(None, host, "https://x").contains("this server's is another one:"), "{host}");
        }
    }
}
