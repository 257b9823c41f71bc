//! Cookies: parses those of a request and creates those of a response.

use std::fmt::Write;

use axum::http::{HeaderMap, HeaderValue, header};
use chrono::TimeDelta;

use crate::domain::{base_path::BasePath, session::SessionSecret};

/// The names and attributes of the server's cookies. With TLS, their names begin with `__Host-`:
/// browsers accept such a cookie only from this very host by TLS, not from a neighboring host. Such a
/// cookie applies to the whole host. Below a base path, the name begins with `__Secure-` instead, so
/// that other applications on the host do not receive the cookie.
#[derive(Clone, Debug)]
pub(crate) struct Cookies {
    pub(crate) secure: bool,
    pub(crate) base: BasePath,
}

impl Cookies {
    /// Returns the name of the cookie with the secret of a session.
    pub(crate) fn session_name(&self) -> &'static str {
        match (self.secure, self.base.is_empty()) {
            (true, true) => "__Host-galvo",
            (true, false) => "__Secure-galvo",
            (false, _) => "galvo_session",
        }
    }

    /// Returns the name of the cookie with a login attempt at an OpenID provider.
    pub(crate) fn attempt_name(&self) -> &'static str {
        match (self.secure, self.base.is_empty()) {
            (true, true) => "__Host-galvo-attempt",
            (true, false) => "__Secure-galvo-attempt",
            (false, _) => "galvo_attempt",
        }
    }

    /// Returns the name of the cookie of a browser with an earlier login.
    pub(crate) fn device_name(&self) -> &'static str {
        match (self.secure, self.base.is_empty()) {
            (true, true) => "__Host-galvo-device",
            (true, false) => "__Secure-galvo-device",
            (false, _) => "galvo_device",
        }
    }

    /// Returns the secret of a request's session cookie. Returns None without a well-formed one.
    pub(crate) fn session(&self, headers: &HeaderMap) -> Option<SessionSecret> {
        value(headers, self.session_name()).and_then(SessionSecret::parse)
    }

    /// Returns the `Set-Cookie` value of a cookie with this lifetime. A lifetime of zero removes the cookie.
    /// Scripts cannot read the cookie, and pages of other sites can send it only by a link.
    pub(crate) fn set_cookie(&self, name: &str, value: &str, lifetime: TimeDelta) -> HeaderValue {
        let (path, seconds) = (self.base.cookie_path(), lifetime.num_seconds());
        let mut cookie = format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax");
        if self.secure {
            write!(cookie, "; Secure").expect("writing to a string succeeds");
        }
        let mut cookie = HeaderValue::try_from(cookie).expect("names, values and paths are ASCII");
        cookie.set_sensitive(true);
        cookie
    }

    /// Returns the `Set-Cookie` value that removes the cookie with this name.
    pub(crate) fn remove_cookie(&self, name: &str) -> HeaderValue {
        self.set_cookie(name, "", TimeDelta::zero())
    }
}

/// Returns the value of a cookie. Returns None for a cookie that is sent twice, because its origin is
/// ambiguous.
pub(crate) fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    let mut values = cookies.filter(|(key, _)| *key == name).map(|(_, value)| value);
    let first = values.next();
    if values.next().is_some() { None } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others_once() {
        let headers = |lines: &[&'static str]| {
            let lines = lines.iter().map(|line| (header::COOKIE, HeaderValue::from_static(line)));
            lines.collect::<HeaderMap>()
        };
        for (lines, found) in [
            (&["a=1"][..], Some("1")),
            (&["b=2; a=1;c=3"], Some("1")),
            (&["b=2", "a=1=1"], Some("1=1")),
            (&["b=a=1"], None),
            (&["aa=1"], None),
            (&["a"], None),
            (&["a=1; a=1"], None),
            (&["a=1", "a=2"], None),
            (&[], None),
        ] {
            assert_eq!(value(&headers(lines), "a"), found, "{lines:?}");
        }
    }

    #[test]
    fn a_cookie_is_for_this_server_alone() {
        let cookies = |secure, base: &str| Cookies { secure, base: base.parse().expect(base) };
        let set_cookie = |secure, base| cookies(secure, base).set_cookie("x", "y", TimeDelta::days(1));
        assert_eq!(set_cookie(false, ""), "x=y; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax");
        assert_eq!(set_cookie(true, ""), "x=y; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax; Secure");
        assert_eq!(set_cookie(true, "/a/b"), "x=y; Path=/a/b; Max-Age=86400; HttpOnly; SameSite=Lax; Secure");
        assert_eq!(
            cookies(true, "").remove_cookie("x"),
            "x=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"
        );
        assert!(set_cookie(true, "").is_sensitive());
        // RFC 6265bis: a name that begins with `__Host-` is for the path `/` alone.
        for (secure, base, session, attempt) in [
            (false, "", "galvo_session", "galvo_attempt"),
            (false, "/a", "galvo_session", "galvo_attempt"),
            (true, "", "__Host-galvo", "__Host-galvo-attempt"),
            (true, "/a", "__Secure-galvo", "__Secure-galvo-attempt"),
        ] {
            let cookies = cookies(secure, base);
            assert_eq!((cookies.session_name(), cookies.attempt_name()), (session, attempt));
        }
    }
}
