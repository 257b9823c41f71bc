//! What somebody shows of who they are, kept for as long as what they asked for lasts.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{cookie::Cookies, problem::Problem};
use crate::domain::session::SessionSecret;

/// Names the account a request asks for, by its short name. Whoever is a member of one only has no need of it.
pub(super) const ACCOUNT: HeaderName = HeaderName::from_static("galvo-account");

/// Credentials that were shown, and not verified. They have no `Debug`.
#[derive(Clone, Default)]
pub(super) struct Credentials {
    /// The value of `Authorization`.
    pub(super) authorization: Option<Box<[u8]>>,
    /// The value of `Galvo-Account`.
    pub(super) account: Option<Box<[u8]>>,
    /// What the cookie of a session holds. It counts where there is no `Authorization`.
    pub(super) session: Option<SessionSecret>,
}

impl Credentials {
    /// Those of a request.
    pub(super) fn of(cookies: Cookies, headers: &HeaderMap) -> Result<Self, Problem> {
        let authorization = only(headers, &header::AUTHORIZATION).map_err(|Several| Self::several())?;
        let several = |_| Problem::malformed("only one Galvo-Account header can be sent");
        let account = only(headers, &ACCOUNT).map_err(several)?;
        Ok(Self {
            authorization: authorization.map(Into::into),
            account: account.map(Into::into),
            session: cookies.session(headers),
        })
    }

    /// The same with those that a payload brings under the names of the headers, as browsers cannot set headers for a
    /// socket. What is shown twice has to be the same.
    pub(super) fn with(mut self, payload: &Map<String, Value>) -> Result<Self, Problem> {
        for (name, value) in payload {
            let (shown, several) = if name.eq_ignore_ascii_case(header::AUTHORIZATION.as_str()) {
                (&mut self.authorization, Self::several())
            } else if name.eq_ignore_ascii_case(ACCOUNT.as_str()) {
                (&mut self.account, Problem::malformed("only one Galvo-Account can be sent"))
            } else {
                continue;
            };
            let Value::String(value) = value else {
                return Err(Problem::unauthenticated("credentials are texts"));
            };
            match shown {
                Some(shown) if **shown != *value.as_bytes() => return Err(several),
                _ => *shown = Some(value.as_bytes().into()),
            }
        }
        Ok(self)
    }

    /// Tells them apart from others.
    pub(super) fn digest(&self) -> [u8; 32] {
        let Self { authorization, account, session } = self;
        let session = session.as_ref().map(SessionSecret::id);
        let mut digest = Sha256::new();
        for part in [authorization.as_deref(), account.as_deref(), session.as_deref()] {
            // What is absent is not what is empty, and where one part ends the next begins.
            digest.update(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
            digest.update(part.unwrap_or_default());
        }
        digest.finalize().into()
    }

    fn several() -> Problem {
        Problem::unauthenticated("only one Authorization header can be sent")
    }
}

/// There are several headers of one name. Which of them would count is a matter of taste, and proxies have others.
struct Several;

fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, Several> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(HeaderValue::as_bytes);
    if values.next().is_none() { Ok(value) } else { Err(Several) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The `Authorization` and the account that count, or the status.
    fn shown(header: Option<&'static str>, payload: &Value) -> Result<(Option<String>, Option<String>), u16> {
        let headers = header.map(|value| (header::AUTHORIZATION, HeaderValue::from_static(value)));
        let credentials = Credentials::of(Cookies { secure: false }, &headers.into_iter().collect())
            .and_then(|credentials| credentials.with(payload.as_object().expect("an object")))
            .map_err(|problem| problem.status().as_u16())?;
        let text = |bytes: Option<Box<[u8]>>| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok((text(credentials.authorization), text(credentials.account)))
    }

    #[test]
    fn a_payload_shows_what_headers_could() {
        let (a, ada) = (|| Some("a".to_owned()), || Some("ada".to_owned()));
        for (header, payload, expected) in [
            (None, json!({}), Ok((None, None))),
            (Some("a"), json!({ "x": 1 }), Ok((a(), None))),
            (None, json!({ "Authorization": "a" }), Ok((a(), None))),
            (None, json!({ "authorization": "a", "galvo-ACCOUNT": "ada" }), Ok((a(), ada()))),
            (Some("a"), json!({ "authorization": "a" }), Ok((a(), None))),
            (Some("a"), json!({ "authorization": "b" }), Err(401)),
            (None, json!({ "authorization": "a", "Authorization": "b" }), Err(401)),
            (None, json!({ "Authorization": ["a"] }), Err(401)),
            (None, json!({ "Galvo-Account": "ada", "galvo-account": "bob" }), Err(400)),
        ] {
            assert_eq!(shown(header, &payload), expected, "{header:?} {payload}");
        }
    }

    #[test]
    fn what_was_shown_is_told_apart() {
        let shown = |authorization: Option<&str>, account: Option<&str>| {
            let bytes = |text: &str| text.as_bytes().into();
            let (authorization, account) = (authorization.map(bytes), account.map(bytes));
            Credentials { authorization, account, session: None }.digest()
        };
        let all = [
            shown(None, None),
            shown(Some(""), None),
            shown(None, Some("")),
            shown(Some("ab"), None),
            shown(Some("a"), Some("b")),
            shown(None, Some("ab")),
        ];
        for (place, one) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == one), Some(place));
        }
        assert_eq!(shown(Some("a"), Some("b")), all[4]);
    }
}
