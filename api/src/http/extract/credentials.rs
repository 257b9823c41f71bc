//! The unverified credentials of a request, kept as long as its subscription or connection lasts.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{cookie::Cookies, problem::Problem};
use crate::domain::session::SessionSecret;

/// The header that selects an account by its short name. A member of a single account does not need it.
pub(crate) const ACCOUNT: HeaderName = HeaderName::from_static("galvo-account");

/// Unverified credentials. They have no `Debug`.
#[derive(Clone, Default)]
pub(crate) struct Credentials {
    /// The value of `Authorization`.
    pub(crate) authorization: Option<Box<[u8]>>,
    /// The value of `Galvo-Account`.
    pub(crate) account: Option<Box<[u8]>>,
    /// The secret from the session cookie. It is ignored beside `Authorization`.
    pub(crate) session: Option<SessionSecret>,
}

impl Credentials {
    /// Extracts the credentials of a request.
    pub(crate) fn of(cookies: &Cookies, headers: &HeaderMap) -> Result<Self, Problem> {
        let authorization = single_value(headers, &header::AUTHORIZATION)
            .map_err(|DuplicateHeader| Self::duplicate_authorization())?;
        let duplicate_account = |_| Problem::malformed("only one Galvo-Account header can be sent");
        let account = single_value(headers, &ACCOUNT).map_err(duplicate_account)?;
        Ok(Self {
            authorization: authorization.map(Into::into),
            account: account.map(Into::into),
            session: cookies.session(headers),
        })
    }

    /// Adds the credentials of a payload, under the names of the headers: browsers cannot set headers
    /// for a socket. Returns an error if they differ from those of the headers.
    pub(crate) fn with(mut self, payload: &Map<String, Value>) -> Result<Self, Problem> {
        for (name, value) in payload {
            let (stored, problem) = if name.eq_ignore_ascii_case(header::AUTHORIZATION.as_str()) {
                (&mut self.authorization, Self::duplicate_authorization())
            } else if name.eq_ignore_ascii_case(ACCOUNT.as_str()) {
                (&mut self.account, Problem::malformed("only one Galvo-Account can be sent"))
            } else {
                continue;
            };
            let Value::String(value) = value else {
                return Err(Problem::unauthenticated("credentials are texts"));
            };
            match stored {
                Some(value_in_header) if **value_in_header != *value.as_bytes() => return Err(problem),
                _ => *stored = Some(value.as_bytes().into()),
            }
        }
        Ok(self)
    }

    /// Returns the identity of the credentials.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let Self { authorization, account, session } = self;
        let session = session.as_ref().map(SessionSecret::id);
        let mut digest = Sha256::new();
        for part in [authorization.as_deref(), account.as_deref(), session.as_deref()] {
            // The length separates the parts, and distinguishes an absent part from an empty one.
            digest.update(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
            digest.update(part.unwrap_or_default());
        }
        digest.finalize().into()
    }

    fn duplicate_authorization() -> Problem {
        Problem::unauthenticated("only one Authorization header can be sent")
    }
}

/// The error of a header that occurs several times. Implementations disagree on the one that counts, and
/// proxies may differ from this server.
struct DuplicateHeader;

fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, DuplicateHeader> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(HeaderValue::as_bytes);
    if values.next().is_none() { Ok(value) } else { Err(DuplicateHeader) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::base_path::BasePath;

    /// The `Authorization` and the account that count, or the status.
    fn shown(header: Option<&'static str>, payload: &Value) -> Result<(Option<String>, Option<String>), u16> {
        let headers = header.map(|value| (header::AUTHORIZATION, HeaderValue::from_static(value)));
        let cookies = Cookies { secure: false, base: BasePath::default() };
        let credentials = Credentials::of(&cookies, &headers.into_iter().collect())
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
