//! Cookies: what browsers send and are told to keep.

use std::fmt::Write;

use axum::http::{HeaderMap, HeaderValue, header};
use chrono::TimeDelta;

use crate::domain::session::SessionSecret;

/// How cookies are called and kept here. Behind TLS their names begin with `__Host-`, which browsers take from this very
/// server alone, by TLS, and not from one beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cookies {
    pub(super) secure: bool,
}

impl Cookies {
    /// The cookie that holds the secret of a session.
    pub(super) fn session_name(self) -> &'static str {
        if self.secure { "__Host-galvo" } else { "galvo_session" }
    }

    /// The cookie that holds an attempt to sign in with a provider elsewhere.
    pub(super) fn attempt_name(self) -> &'static str {
        if self.secure { "__Host-galvo-attempt" } else { "galvo_attempt" }
    }

    /// The secret a browser sends along, if it can be one.
    pub(super) fn session(self, headers: &HeaderMap) -> Option<SessionSecret> {
        value(headers, self.session_name()).and_then(SessionSecret::parse)
    }

    /// Tells a browser to keep a cookie for so long, or for none at all to forget it. Scripts cannot read it, and pages of
    /// others cannot send it along but by a link.
    pub(super) fn keep(self, name: &str, value: &str, life: TimeDelta) -> HeaderValue {
        let mut cookie =
            format!("{name}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax", life.num_seconds());
        if self.secure {
            write!(cookie, "; Secure").expect("a text takes all");
        }
        let mut cookie =
            HeaderValue::try_from(cookie).expect("names and values are letters, digits and dashes");
        cookie.set_sensitive(true);
        cookie
    }

    /// Tells a browser to forget a cookie.
    pub(super) fn forget(self, name: &str) -> HeaderValue {
        self.keep(name, "", TimeDelta::zero())
    }
}

/// The value of a cookie. Of one that is sent twice nobody knows which is ours, so it counts as none.
pub(super) fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    let mut ours = cookies.filter(|(known, _)| *known == name).map(|(_, value)| value);
    let first = ours.next();
    if ours.next().is_some() { None } else { first }
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
        let keep = |secure| Cookies { secure }.keep("x", "y", TimeDelta::days(1));
        assert_eq!(keep(false), "x=y; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax");
        assert_eq!(keep(true), "x=y; Path=/; Max-Age=86400; HttpOnly; SameSite=Lax; Secure");
        assert_eq!(
            Cookies { secure: true }.forget("x"),
            "x=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"
        );
        assert!(keep(true).is_sensitive());
    }
}
