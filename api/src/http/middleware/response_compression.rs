//! Compression of responses with gzip.
//!
//! Only routes with this layer compress. A response that contains a secret beside text from the request
//! must not be compressed: an attacker who can make a browser repeat the request and sees the lengths
//! could guess the secret byte by byte (BREACH). Such routes, and pages with forms, do without the layer;
//! a handler marks a single response with [`Uncompressed`]. Streams are not compressed, because their
//! parts would wait for each other.
//!
//! gzip is the only coding, because every client knows it and others gain little. For 4.4 MB of series,
//! brotli of quality 4 takes more than twice the time for the same size, and zstd of level 3 takes the same
//! time for 15 % more bytes. Files have brotli from their build.

use std::io::Write;

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    http::{HeaderMap, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use flate2::{Compression, write::GzEncoder};

use super::content_coding::{ContentCoding, best};
use crate::blocking_work::run_blocking;

/// The minimum size of a body that is compressed, in bytes. A smaller one fits into one packet anyway.
const MIN_BYTES: u64 = 1_024;

/// The size up to which a body is compressed on the thread that serves requests, in bytes. It takes less
/// than a millisecond.
const MAX_INLINE_BYTES: usize = 16 << 10;

/// The level of gzip. Higher ones take more time than the network saves.
const LEVEL: Compression = Compression::new(5);

/// The level for files, which are compressed once.
const FILE_LEVEL: Compression = Compression::best();

/// The mark on a response that must not be compressed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uncompressed;

/// Compresses a response if the client accepts it.
pub(crate) async fn compress(request: Request, next: Next) -> Response {
    let is_accepted = best(request.headers(), &[ContentCoding::Gzip]).is_some();
    let mut response = next.run(request).await;
    if !is_compressible(&response) {
        return response;
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_name(header::ACCEPT_ENCODING));
    // The length of a stream is not known.
    let is_long = response.body().size_hint().exact().is_some_and(|bytes| bytes >= MIN_BYTES);
    if !is_accepted || !is_long {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(plain) = axum::body::to_bytes(body, usize::MAX).await else {
        unreachable!("a body of known length is in memory")
    };
    let compressed = if plain.len() > MAX_INLINE_BYTES {
        run_blocking(move || gzip(&plain, LEVEL)).await
    } else {
        gzip(&plain, LEVEL)
    };
    parts.headers.insert(header::CONTENT_ENCODING, ContentCoding::Gzip.header());
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(compressed))
}

/// Returns a file compressed with gzip.
pub(crate) fn gzip_file(plain: &[u8]) -> Bytes {
    gzip(plain, FILE_LEVEL).into()
}

fn gzip(plain: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), level);
    encoder.write_all(plain).and_then(|()| encoder.finish()).expect("writing to memory succeeds")
}

fn is_compressible(response: &Response) -> bool {
    let headers = response.headers();
    let is_marked = response.extensions().get::<Uncompressed>().is_some();
    // A cookie is a secret.
    let excluding_headers = [header::CONTENT_ENCODING, header::CONTENT_RANGE, header::SET_COOKIE];
    !is_marked && !excluding_headers.iter().any(|name| headers.contains_key(name)) && is_text(headers)
}

fn is_text(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    // The events of a stream are sent one by one.
    media_type.starts_with("text/") && media_type != "text/event-stream"
        || matches!(
            media_type,
            "application/json" | "application/graphql-response+json" | "application/openmetrics-text"
        )
}
