//! Files that are the same for everybody: their forms, validators and cache lifetimes.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};

use crate::http::middleware::content_coding::{ContentCoding, best};

/// The number of bytes of the hash in an entity tag. 96 bits do not collide by chance.
const TAG_BYTES: usize = 12;

/// A file with its compressed forms.
#[derive(Clone)]
pub(crate) struct StaticFile {
    content_type: HeaderValue,
    plain: Bytes,
    compressed: Vec<(ContentCoding, Bytes)>,
    /// The part of the entity tags that all forms share.
    tag: String,
}

/// The time for which a browser may use a file without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// For good: the name of the file contains a hash of its content.
    Immutable,
    /// Never: the browser asks each time if the file has changed.
    Revalidated,
}

impl StaticFile {
    /// Creates a file. The name determines the media type. Of equally accepted forms, the first is sent.
    pub(crate) fn new(name: &str, plain: Bytes, compressed: Vec<(ContentCoding, Bytes)>) -> Self {
        let tag = URL_SAFE_NO_PAD.encode(&Sha256::digest(&plain)[..TAG_BYTES]);
        Self { content_type: HeaderValue::from_static(content_type(name)), plain, compressed, tag }
    }

    /// Returns the response to a request with these headers: the accepted form, or 304 if the client has
    /// it.
    pub(crate) fn respond(&self, request: &HeaderMap, caching: Caching) -> Response {
        let offers: Vec<_> = self.compressed.iter().map(|(coding, _)| *coding).collect();
        let coding = best(request, &offers);
        let form = coding.and_then(|best| self.compressed.iter().find(|(coding, _)| *coding == best));
        // Different forms need different tags, because a strong validator vouches for each byte.
        let tag = match coding {
            Some(coding) => format!("\"{}-{}\"", self.tag, coding.name()),
            None => format!("\"{}\"", self.tag),
        };
        let mut response = if matches_etag(request, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let bytes = form.map_or(&self.plain, |(_, bytes)| bytes).clone();
            let mut response = Body::from(bytes).into_response();
            response.headers_mut().insert(header::CONTENT_TYPE, self.content_type.clone());
            if let Some(coding) = coding {
                response.headers_mut().insert(header::CONTENT_ENCODING, coding.header());
            }
            response
        };
        let headers = response.headers_mut();
        let caching = match caching {
            Caching::Immutable => "public, max-age=31536000, immutable",
            Caching::Revalidated => "no-cache",
        };
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(header::ETAG, HeaderValue::try_from(tag).expect("an entity tag is ASCII"));
        response
    }
}

/// Returns true if the client names the entity tag in `If-None-Match` (RFC 9110, 13.1.2). The tags of
/// this server contain no commas.
fn matches_etag(request: &HeaderMap, tag: &str) -> bool {
    let fields = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|field| field.to_str().ok());
    let mut tags = fields.flat_map(|field| field.split(',')).map(str::trim);
    tags.any(|client_tag| client_tag == "*" || client_tag.strip_prefix("W/").unwrap_or(client_tag) == tag)
}

/// Returns the media type of a file by its extension.
fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension).unwrap_or_default() {
        "css" => "text/css; charset=utf-8",
        "gif" => "image/gif",
        "html" => "text/html; charset=utf-8",
        "ico" => "image/x-icon",
        "js" | "mjs" => SCRIPT,
        "json" | "map" => "application/json; charset=utf-8",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "wasm" => "application/wasm",
        "webmanifest" => "application/manifest+json",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
