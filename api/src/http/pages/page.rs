//! HTML pages for users: small, without scripts, and without content from other servers.

use std::{fmt::Write, sync::LazyLock};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

use crate::{
    auth::Session,
    domain::{base_path::BasePath, visible_text::visible},
    http::{extract::problem::Problem, server::state::AppState},
};

/// The style sheet of pages, with the colours and sizes of the dashboard.
const STYLE: &str = include_str!("page.css");

const MARK: &str = "<svg width=\"36\" height=\"36\" viewBox=\"0 0 22 22\" fill=\"none\" stroke-width=\"2\" \
    stroke-linecap=\"round\" aria-hidden=\"true\"><path d=\"M3 16.5a8 8 0 1 1 16 0\"/>\
    <path class=\"needle\" d=\"M11 16.5 15.6 8\"/><circle cx=\"11\" cy=\"16.5\" r=\"2\"/></svg>";

/// The policy of pages: they may use the server's style sheet, identified by its hash, and send forms to
/// this server.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src {}; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        hash_source(STYLE)
    )
});

/// Returns the hash source of a style or script, which allows exactly this text in a policy.
pub(crate) fn hash_source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// A page. A handler returns it beside an empty body. [`render_page`] renders it to HTML, because only the
/// middleware knows the server's base path.
#[derive(Clone)]
pub(crate) struct Page {
    status: StatusCode,
    title: String,
    body: String,
    has_home_link: bool,
    frame: Option<String>,
    script: Option<&'static str>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Page {
    /// Creates a page with a heading. `body` is HTML.
    pub(crate) fn new(title: impl Into<String>, body: impl Into<String>) -> Self {
        let (title, body) = (title.into(), body.into());
        let (status, headers) = (StatusCode::OK, Vec::new());
        Self { status, title, body, has_home_link: false, frame: None, script: None, headers }
    }

    /// Sets the status of the response.
    pub(crate) fn status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Adds a link to the front page at the end.
    pub(crate) fn with_home_link(self) -> Self {
        Self { has_home_link: true, ..self }
    }

    /// Allows a frame in the body whose content comes from `source` only: an origin, or one URL of it.
    pub(crate) fn with_frame(self, source: String) -> Self {
        Self { frame: Some(source), ..self }
    }

    /// Adds a script at the end. The page works without it.
    pub(crate) fn with_script(self, script: &'static str) -> Self {
        Self { script: Some(script), ..self }
    }

    /// Adds a header to the response.
    pub(crate) fn header(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn policy(&self) -> HeaderValue {
        let mut policy = POLICY.clone();
        if let Some(source) = &self.frame {
            write!(policy, "; frame-src {source}").expect("writing to a string succeeds");
        }
        if let Some(script) = self.script {
            write!(policy, "; script-src {}", hash_source(script)).expect("writing to a string succeeds");
        }
        HeaderValue::try_from(policy).expect("a policy is ASCII")
    }

    fn html(&self, base: &BasePath) -> String {
        let (title, body) = (escape(&self.title), &self.body);
        let home = if self.has_home_link {
            format!("<p><a href=\"{}\">To the front page</a></p>", base.address("/"))
        } else {
            String::new()
        };
        let script = self.script.map(|script| format!("<script>{script}</script>")).unwrap_or_default();
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title} · Galvo</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style>\
             <main><header>{MARK}<h1>{title}</h1></header><div>{body}{home}</div></main>{script}</html>"
        )
    }

    /// Returns the response of a handler outside [`render_page`].
    pub(crate) fn render(self, base: &BasePath) -> Response {
        render(self.into_response(), base)
    }
}

/// Renders the page that a handler returned. [`ErrorPage`] has no access to the state of the server, and
/// cannot render itself.
pub(crate) async fn render_page(State(state): State<AppState>, request: Request, next: Next) -> Response {
    render(next.run(request).await, &state.site.base)
}

fn render(mut response: Response, base: &BasePath) -> Response {
    if let Some(page) = response.extensions_mut().remove::<Page>() {
        *response.body_mut() = Body::from(page.html(base));
    }
    response
}

impl IntoResponse for Page {
    fn into_response(mut self) -> Response {
        let mut response = self.status.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy());
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Browsers that send no referrer also send no origin with forms, and the CSRF check needs the
        // origin.
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        for (name, value) in self.headers.drain(..) {
            headers.append(name, value);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// An error as a page.
pub(crate) struct ErrorPage(pub(crate) Problem);

impl<P: Into<Problem>> From<P> for ErrorPage {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let mut body = format!("<p role=\"alert\">{}</p>", escape(problem.message()));
        if let Some(reference) = problem.reference() {
            write!(body, "<p>Reference: <code>{reference}</code></p>").expect("writing to a string succeeds");
        }
        let (parts, body) = Page::new("Request failed", body).with_home_link().into_response().into_parts();
        let mut response = problem.with_body(body);
        response.headers_mut().extend(parts.headers);
        response.extensions_mut().extend(parts.extensions);
        response
    }
}

/// Returns the hidden field with the CSRF token, which shows that a form comes from the server's own
/// page.
pub(crate) fn csrf_field(session: &Session) -> String {
    hidden("csrf", &session.csrf_token())
}

/// Returns a hidden field of a form.
pub(crate) fn hidden(name: &str, value: &str) -> String {
    format!("<input type=\"hidden\" name=\"{name}\" value=\"{}\">", escape(value))
}

/// Returns a selection list. Each option consists of its value and its text.
pub(crate) fn select<'a>(name: &str, options: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut list = format!("<select name=\"{name}\">");
    for (value, text) in options {
        let (value, text) = (escape(value), escape(text));
        write!(list, "<option value=\"{value}\">{text}</option>").expect("writing to a string succeeds");
    }
    list + "</select>"
}

/// Escapes a text for an HTML element or a quoted attribute. Invisible characters become their code
/// points.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in visible(text).chars() {
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
        assert_eq!(escape("a\u{202e}<\u{1b}"), "a\\u{202e}&lt;\\u{1b}");
    }
}
