//! Reads JSON bodies. The size is limited before the body is read, while it is read, and while it is
//! decompressed.

use std::{borrow::Cow, error::Error, io::Read, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, header},
};
use flate2::read::GzDecoder;
use futures::{StreamExt, TryStreamExt, stream};
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::{Instant, timeout};

use super::{lone_surrogates::replace_lone_surrogates, problem::Problem};
use crate::{blocking_work::run_blocking, domain::validated::LocatedError};

/// The size of JSON that is parsed on the thread of the request, in bytes. It takes a fraction of a
/// millisecond, and most reports are no larger.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// The size limits of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The limit of the bytes as sent.
    pub(crate) sent: usize,
    /// The limit of the bytes after decompression.
    pub(crate) inflated: usize,
}

/// A body whose headers were checked and that was not read yet.
pub(crate) struct AcceptedHeaders {
    gzip: bool,
    limits: Limits,
}

/// A body as it was sent.
pub(crate) struct Received {
    bytes: Vec<u8>,
    gzip: bool,
    limits: Limits,
}

/// Checks that the headers describe a JSON body within the limits.
pub(crate) fn check_headers(headers: &HeaderMap, limits: Limits) -> Result<AcceptedHeaders, Problem> {
    check_content_type(headers)?;
    let gzip = is_gzip(headers)?;
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits.sent as u64) {
        return Err(Problem::too_large(limits.sent));
    }
    Ok(AcceptedHeaders { gzip, limits })
}

impl AcceptedHeaders {
    /// Reads the body. Returns an error if it does not arrive in time.
    pub(crate) async fn receive(self, body: Body, time_limit: Duration) -> Result<Received, Problem> {
        let Self { gzip, limits } = self;
        let collected = timeout(time_limit, collect_body(body, limits.sent)).await;
        Ok(Received { bytes: collected.map_err(|_| Problem::timeout())??, gzip, limits })
    }
}

impl Received {
    /// Returns the size of the body as sent, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the decompressed JSON.
    pub(crate) fn json(self) -> Result<Vec<u8>, Problem> {
        if self.gzip { inflate(&self.bytes, self.limits.inflated) } else { Ok(self.bytes) }
    }

    /// Parses the JSON. A large body is parsed on a thread for long work.
    pub(crate) async fn parse<T: DeserializeOwned + Send + 'static>(self) -> Result<T, Problem> {
        self.parse_checked(|_| Ok(())).await
    }

    /// Parses the JSON, and checks the values against each other.
    pub(crate) async fn parse_checked<T: DeserializeOwned + Send + 'static>(
        self,
        check: impl Fn(&T) -> Result<(), LocatedError> + Send + 'static,
    ) -> Result<T, Problem> {
        Ok(self.parse_measured(check, |_| ()).await?.0)
    }

    /// Parses and checks the JSON, and also returns the result of `measure` on a valid body.
    pub(crate) async fn parse_measured<T: DeserializeOwned + Send + 'static, M: Send + 'static>(
        self,
        check: impl Fn(&T) -> Result<(), LocatedError> + Send + 'static,
        measure: impl Fn(&[u8]) -> M + Send + 'static,
    ) -> Result<(T, M), Problem> {
        let parse_and_check = move |json: &[u8]| {
            let parsed = parse(json)?;
            check(&parsed).map_err(|error| Problem::invalid(error.pointer, error.message))?;
            Ok((parsed, measure(json)))
        };
        match self.small_json() {
            Some(json) => parse_and_check(&json),
            None => run_blocking(move || parse_and_check(&self.json()?)).await,
        }
    }

    /// Returns the JSON of a small body.
    fn small_json(&self) -> Option<Cow<'_, [u8]>> {
        if self.bytes.len() > MAX_INLINE_BYTES {
            None
        } else if self.gzip {
            inflate(&self.bytes, MAX_INLINE_BYTES).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(&self.bytes))
        }
    }
}

/// Parses a body. The error locates the first invalid value.
pub(crate) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, Problem> {
    let json = replace_lone_surrogates(json);
    let mut deserializer = serde_json::Deserializer::from_slice(&json);
    let parsed = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let cause = error.inner();
        if cause.is_data() {
            let message = without_position(&cause.to_string());
            Problem::invalid(pointer(error.path(), &message), message)
        } else if is_json(&json) {
            // The parser reports some invalid values as syntax errors: a number in the place of an enum
            // value, a number beyond every type, or nesting beyond its limit.
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

pub(crate) async fn collect_body(body: Body, limit: usize) -> Result<Vec<u8>, Problem> {
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

/// The error of a body that arrives too slowly.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the body came too slowly")]
pub(crate) struct TooSlow;

impl TooSlow {
    /// Returns true if an error is this one, or was caused by it.
    pub(crate) fn caused(error: &(dyn Error + 'static)) -> bool {
        error.is::<Self>() || error.source().is_some_and(Self::caused)
    }
}

/// Wraps a body so that it fails with [`TooSlow`] if less than `min_bytes` bytes arrive within `interval` of
/// waiting. The last part of the body may be smaller.
pub(crate) fn with_progress_timeout(body: Body, min_bytes: usize, interval: Duration) -> Body {
    let state = (body.into_data_stream(), interval, 0);
    Body::from_stream(stream::unfold(Some(state), move |state| async move {
        let (mut chunks, mut remaining_time, mut received_bytes) = state?;
        let waited_from = Instant::now();
        let chunk = match timeout(remaining_time, chunks.next()).await {
            Err(_) => return Some((Err(axum::Error::new(TooSlow)), None)),
            Ok(None) => return None,
            Ok(Some(Err(error))) => return Some((Err(error), None)),
            Ok(Some(Ok(chunk))) => chunk,
        };
        // Only the waiting time counts against the sender, not the processing between two chunks.
        remaining_time = remaining_time.saturating_sub(waited_from.elapsed());
        received_bytes += chunk.len();
        if received_bytes >= min_bytes {
            (remaining_time, received_bytes) = (interval, 0);
        }
        Some((Ok(chunk), Some((chunks, remaining_time, received_bytes))))
    }))
}

fn inflate(sent: &[u8], limit: usize) -> Result<Vec<u8>, Problem> {
    let mut inflated = Vec::new();
    // One byte beyond the limit distinguishes a body that is too large from one that just fits.
    GzDecoder::new(sent)
        .take(limit as u64 + 1)
        .read_to_end(&mut inflated)
        .map_err(|_| Problem::malformed("the body is not valid gzip"))?;
    if inflated.len() > limit { Err(Problem::too_large(limit)) } else { Ok(inflated) }
}

/// Returns the location as a JSON pointer. For a missing field, it names that field, not the object
/// without it.
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

/// Removes the line and column from the end of a parser's message, because the pointer is more precise.
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
    #[expect(dead_code, reason = "only deserialized to test whether that succeeds")]
    struct Outer {
        list: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only deserialized to test whether that succeeds")]
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
