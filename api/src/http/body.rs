//! Reading a JSON body, bounded at every step: before it is read, while it is read, and while it is inflated.

use std::{borrow::Cow, io::Read, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, header},
};
use flate2::read::GzDecoder;
use futures::TryStreamExt;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::{problem::Problem, surrogate::replace_lone_surrogates};
use crate::{blocking::blocking, domain::bounded::Misplaced};

/// Bytes of JSON that are read where requests are answered: that takes a fraction of a millisecond, and most reports
/// are no larger.
const SMALL: usize = 64 << 10;

/// How large a body may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes as sent.
    pub(super) sent: usize,
    /// Bytes after decompression.
    pub(super) inflated: usize,
}

/// A body that was announced, and is not read.
pub(super) struct Announced {
    gzip: bool,
    limits: Limits,
}

/// A body as it was sent.
pub(super) struct Received {
    bytes: Vec<u8>,
    gzip: bool,
    limits: Limits,
}

/// Looks whether the headers announce a body of JSON.
pub(super) fn announced(headers: &HeaderMap, limits: Limits) -> Result<Announced, Problem> {
    check_content_type(headers)?;
    let gzip = is_gzip(headers)?;
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits.sent as u64) {
        return Err(Problem::too_large(limits.sent));
    }
    Ok(Announced { gzip, limits })
}

impl Announced {
    /// Waits for the body.
    pub(super) async fn receive(self, body: Body, patience: Duration) -> Result<Received, Problem> {
        let Self { gzip, limits } = self;
        let collected = tokio::time::timeout(patience, collect(body, limits.sent)).await;
        Ok(Received { bytes: collected.map_err(|_| Problem::timeout())??, gzip, limits })
    }
}

impl Received {
    /// How large it was, in bytes as sent.
    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The JSON that was sent, whatever its encoding.
    pub(super) fn json(self) -> Result<Vec<u8>, Problem> {
        if self.gzip { inflate(&self.bytes, self.limits.inflated) } else { Ok(self.bytes) }
    }

    /// What the JSON says, read on a thread where it may take its time if there is much of it.
    pub(super) async fn parse<T: DeserializeOwned + Send + 'static>(self) -> Result<T, Problem> {
        self.parse_checked(|_| Ok(())).await
    }

    /// The same, where values have to fit each other, too.
    pub(super) async fn parse_checked<T: DeserializeOwned + Send + 'static>(
        self,
        check: impl Fn(&T) -> Result<(), Misplaced> + Send + 'static,
    ) -> Result<T, Problem> {
        let checked = move |json: &[u8]| {
            let parsed = parse(json)?;
            check(&parsed).map_err(|wrong| Problem::invalid(wrong.pointer, wrong.message))?;
            Ok(parsed)
        };
        match self.small_json() {
            Some(json) => checked(&json),
            None => blocking(move || checked(&self.json()?)).await,
        }
    }

    /// The JSON, if there is little of it.
    fn small_json(&self) -> Option<Cow<'_, [u8]>> {
        if self.bytes.len() > SMALL {
            None
        } else if self.gzip {
            inflate(&self.bytes, SMALL).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(&self.bytes))
        }
    }
}

/// Parses a body, naming the place of the first wrong value.
pub(super) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Problem> {
    let json = replace_lone_surrogates(json);
    let mut deserializer = serde_json::Deserializer::from_slice(&json);
    let parsed = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let cause = error.inner();
        if cause.is_data() {
            let message = without_position(&cause.to_string());
            Problem::invalid(pointer(error.path(), &message), message)
        } else if is_json(&json) {
            // The parser calls malformed what only does not fit: a number where one of some words is wanted, a
            // number too large for any type, nesting too deep.
            let message = match without_position(&cause.to_string()) {
                message if message == "expected value" => "not one of the values this can have".to_owned(),
                message => message,
            };
            Problem::invalid(pointer(error.path(), &message), message)
        } else {
            Problem::malformed(format!("not valid JSON: {cause}"))
        }
    })?;
    deserializer.end().map_err(|error| Problem::malformed(format!("not valid JSON: {error}")))?;
    Ok(parsed)
}

fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = value.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json"));
    let is_utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, charset)) if name.eq_ignore_ascii_case("charset") => {
            charset.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    });
    if is_json && is_utf8 {
        Ok(())
    } else {
        Err(Problem::unsupported_media_type("the Content-Type must be application/json in UTF-8"))
    }
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, Problem> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase());
    match encoding.as_deref() {
        None | Some(b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(_) => Err(Problem::unsupported_media_type("the Content-Encoding must be gzip or identity")),
    }
}

pub(super) async fn collect(body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
    let mut collected = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) =
        chunks.try_next().await.map_err(|_| Problem::malformed("the body ended before it was complete"))?
    {
        if collected.len() + chunk.len() > limit {
            return Err(Problem::too_large(limit));
        }
        collected.extend_from_slice(&chunk);
    }
    Ok(collected)
}

fn inflate(sent: &[u8], limit: usize) -> Result<Vec<u8>, Problem> {
    let mut inflated = Vec::new();
    // One byte more than allowed tells a body that is too large from one that just fits.
    GzDecoder::new(sent)
        .take(limit as u64 + 1)
        .read_to_end(&mut inflated)
        .map_err(|_| Problem::malformed("the body is not valid gzip"))?;
    if inflated.len() > limit { Err(Problem::too_large(limit)) } else { Ok(inflated) }
}

/// The place as a JSON pointer. A missing field is named itself, not the object that lacks it.
fn pointer(path: &serde_path_to_error::Path, message: &str) -> String {
    use serde_path_to_error::Segment;

    let mut pointer = String::new();
    let mut push = |token: &str| {
        pointer.push('/');
        pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
    };
    for segment in path {
        match segment {
            Segment::Seq { index } => push(&index.to_string()),
            Segment::Map { key } => push(key),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
        push(field);
    }
    pointer
}

/// The parser ends its messages with a line and column, which a pointer says better.
fn without_position(message: &str) -> String {
    message.rfind(" at line ").map_or(message, |end| &message[..end]).to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read to see whether it can be")]
    struct Outer {
        list: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read to see whether it can be")]
    struct Inner {
        #[serde(rename = "a/b")]
        number: u8,
    }

    #[test]
    fn errors_name_the_place() {
        for (json, place, text) in [
            (r#"{"list": [{"a/b": 1}, {"a/b": -1}]}"#, "/list/1/a~1b", "invalid value"),
            (r#"{"list": [{}]}"#, "/list/0/a~1b", "missing field"),
            (r#"{"list": 1}"#, "/list", "invalid type"),
            ("{}", "/list", "missing field"),
            ("[]", "", "invalid length"),
        ] {
            let problem = parse::<Outer>(json.as_bytes()).expect_err(json);
            assert_eq!(problem.pointer(), Some(place), "{json}");
            assert!(problem.message().contains(text), "{json}: {}", problem.message());
            assert!(!problem.message().contains(" at line "), "{json}: {}", problem.message());
        }
    }

    #[test]
    fn what_is_no_json_has_no_place() {
        for json in ["", "{", r#"{"list": []} x"#, r#"{"list": [NaN]}"#] {
            assert_eq!(parse::<Outer>(json.as_bytes()).expect_err(json).code(), "MALFORMED_BODY", "{json}");
        }
        assert_eq!(parse::<Outer>(b"{\"list\": \"\xff\"}").expect_err("not UTF-8").code(), "MALFORMED_BODY");
    }

    #[test]
    fn a_small_body_cannot_become_a_large_one() {
        let bomb = |size| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&vec![b' '; size]).expect("memory does not fail");
            encoder.finish().expect("memory does not fail")
        };
        assert_eq!(inflate(&bomb(1_000), 1_000).expect("just fits").len(), 1_000);
        assert_eq!(inflate(&bomb(1_001), 1_000).expect_err("too large").code(), "PAYLOAD_TOO_LARGE");
        assert_eq!(inflate(b"not gzip", 1_000).expect_err("not gzip").code(), "MALFORMED_BODY");
    }
}
