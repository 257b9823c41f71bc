//! Pages for people: small, without scripts, and nothing in them that another server could serve.

use std::{fmt::Write, sync::LazyLock};

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

use super::problem::Problem;
use crate::auth::Session;

const STYLE: &str = "\
:root{color-scheme:light dark;font-family:system-ui,sans-serif;line-height:1.5}\
body{max-width:34rem;margin:3rem auto;padding:0 1rem}\
label{display:block;margin:1rem 0}\
input,select{display:block;width:100%;box-sizing:border-box;font:inherit;padding:.4rem}\
button{font:inherit;padding:.4rem 1rem;margin:.5rem .5rem .5rem 0}\
dt{font-weight:600}dd{margin:0 0 .5rem}code{overflow-wrap:anywhere}\
[role=alert]{border-left:.3rem solid #c00;padding-left:.7rem}";

/// What pages may do: show our style, which is told by its hash, and send forms to this server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    HeaderValue::try_from(policy).expect("letters and signs")
});

/// A page.
pub(super) struct Page {
    status: StatusCode,
    title: String,
    body: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Page {
    /// A page with a heading; `body` is HTML.
    pub(super) fn new(title: impl Into<String>, body: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, title: title.into(), body: body.into(), headers: Vec::new() }
    }

    /// The same page as an answer of another status.
    pub(super) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// The same page with another header.
    pub(super) fn header(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let title = escape(&self.title);
        let html = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title} · Galvo</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style>\
             <main><h1>{title}</h1>{}</main></html>",
            self.body
        );
        let mut response = (self.status, html).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Browsers that send no referrer at all send no origin with forms either, which is looked at.
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        response
    }
}

/// What is refused, as a page.
pub(super) struct Refused(pub(super) Problem);

impl<P: Into<Problem>> From<P> for Refused {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let mut body = format!("<p role=\"alert\">{}</p>", escape(problem.message()));
        if let Some(reference) = problem.reference() {
            write!(body, "<p>Reference: <code>{reference}</code></p>").expect("a text takes all");
        }
        body += "<p><a href=\"/\">To the front page</a></p>";
        let page = Page::new("That did not work", body).into_response();
        let (parts, body) = page.into_parts();
        let mut response = problem.with_body(body);
        response.headers_mut().extend(parts.headers);
        response
    }
}

/// A hidden field of a form that shows it to be of a page of ours.
pub(super) fn csrf_field(session: &Session) -> String {
    hidden("csrf", &session.csrf_token())
}

/// A hidden field of a form.
pub(super) fn hidden(name: &str, value: &str) -> String {
    format!("<input type=\"hidden\" name=\"{name}\" value=\"{}\">", escape(value))
}

/// A list to choose from: what is sent, and what is read.
pub(super) fn select<'a>(name: &str, options: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut list = format!("<select name=\"{name}\">");
    for (value, text) in options {
        let (value, text) = (escape(value), escape(text));
        write!(list, "<option value=\"{value}\">{text}</option>").expect("a text takes all");
    }
    list + "</select>"
}

/// Any text as HTML, inside an element or a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_makes_no_elements() {
        let wrote = r#"<script>alert("x")</script>&'ä"#;
        assert_eq!(escape(wrote), "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&amp;&#39;ä");
    }
}
