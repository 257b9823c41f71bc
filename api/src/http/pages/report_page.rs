//! `/reports/{id}`: a performance report, as Dask drew it.
//!
//! A report is untrusted HTML with scripts. It is therefore never a page by itself: the server's own
//! page, without scripts, names the report's author and shows the report in a frame. The frame has an
//! opaque origin: it has no cookies of this server, cannot send requests to it, and cannot navigate
//! elsewhere. The address bar shows the server's own page. Only such a frame receives the content, and
//! programs with a token, which receive it as a file.
//!
//! Policies do not cover all the ways in which a script can reach a server. The report's scripts are run
//! by a script of the server, which removes the remaining ways first (`assets/report/show.js`): it is
//! the only script that the policy lets start.

use std::sync::LazyLock;

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use entity::{
    ids::PerformanceReportId,
    performance_report::{Model, Visibility},
};
use futures::{Stream, StreamExt, stream};

use super::{
    page::{ErrorPage, Page, escape, hash_source},
    page_caller,
    sign_in::see_other,
};
use crate::{
    auth::Viewer,
    domain::{report_link::ReportLink, slug::Slug, visible_text::attachment},
    guard::AUDIT_ENTRY_COST,
    http::{
        extract::{
            caller::Caller,
            credentials::Credentials,
            encrypted_text::{self, Purpose},
            form::parameter,
            origin::RequestOrigin,
            path::PathParams,
            problem::Problem,
        },
        middleware::{host::Hosts, request_slot::OccupiedSlot},
        server::state::AppState,
    },
    store::{AccountStore, PerformanceReportReader, StoreError},
};
use entity::api_token::Scope;

/// The header in which a browser names the destination of a response.
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The header in which a browser compares the origins of a request and of the document that makes it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The script that runs the scripts of a report.
const SHOW: &str = include_str!("../../../assets/report/show.js");

/// The policy of a report: it may run the server's script, through it its own scripts and those of
/// Bokeh, which compile strings, and draw. It cannot navigate, and only the server's page may frame it,
/// which the directive at the end names.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "sandbox allow-scripts; default-src 'none'; script-src {} 'unsafe-eval' https://cdn.bokeh.org; \
         style-src 'unsafe-inline' https://cdn.bokeh.org; img-src data: blob:; font-src data: https://cdn.bokeh.org; \
         connect-src 'none'; frame-src 'none'; worker-src 'none'; object-src 'none'; manifest-src 'none'; \
         form-action 'none'; base-uri 'none'; webrtc 'block'; require-trusted-types-for 'script'; \
         trusted-types default; frame-ancestors ",
        hash_source(SHOW)
    )
});

/// The browser features that a report may not use. A frame of another origin may use few others.
const PERMISSIONS: HeaderValue = HeaderValue::from_static(
    "attribution-reporting=(), browsing-topics=(), camera=(), clipboard-read=(), clipboard-write=(), display-capture=(), \
     fullscreen=(), gamepad=(), geolocation=(), idle-detection=(), microphone=(), payment=(), \
     picture-in-picture=(), private-state-token-issuance=(), private-state-token-redemption=(), \
     publickey-credentials-get=(), screen-wake-lock=(), shared-storage=(), storage-access=(), sync-xhr=(), usb=(), \
     xr-spatial-tracking=()",
);

/// The cost of the page, in points.
const PAGE_COST: u64 = 100;

/// The cost of showing a report without its bytes, in points.
const CONTENT_COST: u64 = AUDIT_ENTRY_COST;

/// The number of bytes that are decrypted and sent for one point.
const BYTES_PER_POINT: u64 = 1_024;

/// Returns the path at which a report of an account is shown.
pub(crate) fn path(account: &str, id: PerformanceReportId) -> String {
    format!("/reports/{id}?account={account}")
}

/// Returns true for the path of a report's content.
pub(crate) fn is_content(path: &str) -> bool {
    let id = path.strip_prefix("/reports/").and_then(|rest| rest.strip_suffix("/content"));
    id.is_some_and(|id| !id.is_empty() && !id.contains('/'))
}

/// Shows a report within the server's own page. `account` selects one of the user's accounts.
pub(crate) async fn get(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    PathParams(id): PathParams<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ErrorPage> {
    let id: PerformanceReportId = id.parse().map_err(|_| report_not_found())?;
    let path = format!("/reports/{id}");
    let caller = match page_caller::authenticate(&state, origin, &headers, &path, query.as_deref()).await? {
        Ok(caller) => caller,
        Err(to_sign_in) => return Ok(to_sign_in),
    };
    let (store, viewer) = (caller.store(&state), &caller.viewer);
    let report = store
        .performance_report(PerformanceReportReader::from_viewer(viewer), id)
        .await?
        .ok_or_else(report_not_found)?;
    let user = store.users_by_id(&[report.user_id]).await?.remove(&report.user_id).map(|user| user.name);
    state.query_limiter.overdraw(caller.limit_keys, PAGE_COST);
    Ok(page(&state, viewer, &report, user.as_deref(), &headers))
}

fn page(
    state: &AppState,
    viewer: &Viewer,
    report: &Model,
    user: Option<&str>,
    headers: &HeaderMap,
) -> Response {
    let audience = match report.visibility {
        Visibility::Public => "all members of the account",
        Visibility::Private => "the user who stored it, and admins of the account",
    };
    let facts = [
        ("Stored by", user.unwrap_or("a former member")),
        ("Stored at", &report.created_at.0.format("%Y-%m-%d %H:%M:%S UTC").to_string()),
        ("Account", &viewer.account().slug),
        ("Size", &format!("{} bytes", report.size_bytes)),
        ("Seen by", audience),
    ];
    let facts: Vec<String> =
        facts.iter().map(|(name, fact)| format!("{name}: <strong>{}</strong>", escape(fact))).collect();
    let (url, source) = content_url(state, viewer, report.id, headers);
    // A browser that does not send the destination of a response would not receive the content.
    let frame = if headers.contains_key(&SEC_FETCH_DEST) || headers.contains_key(header::AUTHORIZATION) {
        format!(
            "<iframe title=\"The report\" sandbox=\"allow-scripts\" referrerpolicy=\"no-referrer\" src=\"{}\"></iframe>",
            escape(&url)
        )
    } else {
        "<p role=\"alert\">The report is not shown, because this browser did not send the header \
         Sec-Fetch-Dest. Browsers send it only over HTTPS or to a server on the same machine.</p>"
            .to_owned()
    };
    let body = format!(
        "<p>{}</p><p>The content of the frame was uploaded by a user and is not part of this server: do not \
         enter a password there.</p>{frame}",
        facts.join(" · ")
    );
    Page::new(report.name.as_str(), body)
        .with_frame(source)
        .header(
            HeaderName::from_static("cross-origin-opener-policy"),
            HeaderValue::from_static("same-origin"),
        )
        .into_response()
}

/// Returns the URL of a report's content for the page's frame, and its source expression for the page's
/// policy.
fn content_url(
    state: &AppState,
    viewer: &Viewer,
    id: PerformanceReportId,
    headers: &HeaderMap,
) -> (String, String) {
    let (account, path) = (&viewer.account().slug, format!("/reports/{id}/content"));
    let session =
        state.site.cookies.session(headers).filter(|_| !headers.contains_key(header::AUTHORIZATION));
    if let Some((reports, session)) = state.site.reports_url.as_ref().zip(session) {
        let link = ReportLink {
            report: id,
            session: session.id(),
            account: account.clone(),
            made_at: state.clock.now().timestamp_millis(),
        };
        let link = encrypted_text::encrypt_text(state.store.keys(), Purpose::ReportLink, &link.encode());
        return (format!("{}?link={link}", reports.url_of(&path)), reports.url_of(&path));
    }
    // The URL has the host by which the browser knows the server: the configured one, unless the request
    // used another.
    let public = state.site.public_url.as_ref().filter(|public| !Hosts::uses_local_name(headers, public));
    let source = public.map_or("'self'".to_owned(), |public| public.url_of(&path));
    (state.site.base.address(&format!("{path}?account={account}")), source)
}

/// The caller of a report's content, and the form in which it is sent.
enum ContentRequest {
    /// A frame of the server's own page.
    Frame(Viewer),
    /// A program with a token.
    Program(Viewer),
    /// A browser that would show the content directly. It is redirected to the page.
    Page(String),
}

/// Sends the content of a report to the frame of the server's page, or to a program.
pub(crate) async fn content(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    PathParams(id): PathParams<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ErrorPage> {
    let id: PerformanceReportId = id.parse().map_err(|_| report_not_found())?;
    let (viewer, is_file) = match authorize_content(&state, id, query.as_deref(), &headers).await? {
        ContentRequest::Frame(viewer) => (viewer, false),
        ContentRequest::Program(viewer) => (viewer, true),
        ContentRequest::Page(address) => return Ok(see_other(&state, &address)),
    };
    let caller = Caller::new(viewer, origin);
    caller.check_points(&state)?;
    let store = caller.store(&state);
    let report = store
        .performance_report(PerformanceReportReader::from_viewer(&caller.viewer), id)
        .await?
        .ok_or_else(report_not_found)?;
    let first = load_piece(&store, id, 0).await?;
    // The audit entry precedes the content, which contains profiles and code.
    store.record_decryptions().await?;
    let size = u64::try_from(report.size_bytes).unwrap_or(0);
    state.query_limiter.overdraw(caller.limit_keys, CONTENT_COST + size / BYTES_PER_POINT);
    let pieces = stream::try_unfold((store, first, 1), move |(store, piece, position)| async move {
        let Some(piece) = piece else { return Ok(None) };
        let next = load_piece(&store, id, position).await.inspect_err(|problem| {
            tracing::warn!(reason = problem.message(), "performance report truncated");
        })?;
        Ok::<_, Problem>(Some((piece, (store, next, position + 1))))
    });
    Ok(if is_file { file_response(&report, pieces) } else { frame_response(&state, pieces) })
}

/// Authenticates the caller, and rejects requests that would show the content outside a frame of the
/// server's page.
async fn authorize_content(
    state: &AppState,
    id: PerformanceReportId,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<ContentRequest, Problem> {
    let purpose = headers.get(&SEC_FETCH_DEST).map(HeaderValue::as_bytes);
    let has_token = headers.contains_key(header::AUTHORIZATION);
    let is_report_host = state.site.hosts.is_report_host(headers);
    let account = parameter(query, "account").parse::<Slug>().ok();
    // A report has an opaque origin. Its reader is not charged if it reloads itself repeatedly.
    let is_from_page = headers.get(&SEC_FETCH_SITE).is_none_or(|site| site == "same-origin");
    match purpose {
        Some(b"iframe") if is_report_host || is_from_page => {}
        None if has_token && !is_report_host => {}
        Some(b"document") if !is_report_host => {
            return Ok(ContentRequest::Page(match account {
                Some(account) => path(account.as_str(), id),
                None => format!("/reports/{id}"),
            }));
        }
        _ => return Err(not_in_frame()),
    }
    if is_report_host {
        let sealed = parameter(query, "link");
        let link = encrypted_text::decrypt_text(state.store.keys(), Purpose::ReportLink, &sealed)
            .and_then(|text| ReportLink::decode(&text, state.clock.timestamp()))
            .filter(|link| link.report == id)
            .ok_or_else(|| Problem::forbidden("LINK_EXPIRED", "the link has expired: reload the page"))?;
        let viewer = state.authentication.authenticator.viewer_of_link(
            &state.sign_in.sessions,
            link.session,
            link.account.as_bytes(),
        );
        let viewer = viewer.await?;
        viewer.require(Scope::Read)?;
        OccupiedSlot::transfer_to(state, &viewer)?;
        return Ok(ContentRequest::Frame(viewer));
    }
    // With a separate origin for reports, a cookie gives access to the content on no other origin.
    if state.site.reports_url.is_some() && !has_token {
        return Err(not_in_frame());
    }
    let mut credentials = Credentials::of(&state.site.cookies, headers)?;
    if let Some(account) = account {
        credentials.account = Some(account.as_str().as_bytes().into());
    }
    let viewer = state.viewer_with(&credentials, Scope::Read).await?;
    Ok(if purpose.is_some() { ContentRequest::Frame(viewer) } else { ContentRequest::Program(viewer) })
}

fn report_not_found() -> Problem {
    Problem::missing("there is no such performance report")
}

fn not_in_frame() -> Problem {
    Problem::forbidden(
        "NOT_IN_FRAME",
        "a performance report is shown only in the frame of its page, at the same address without \
         '/content'; programs send 'Authorization: Bearer <token>'",
    )
}

/// Sends the report as a file that no browser displays.
fn file_response(
    report: &Model,
    pieces: impl Stream<Item = Result<Vec<u8>, Problem>> + Send + 'static,
) -> Response {
    let name = HeaderValue::try_from(attachment(&report.name)).expect("it is written in ASCII");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_LENGTH, HeaderValue::from(report.size_bytes)),
        (header::CONTENT_DISPOSITION, name),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("sandbox; default-src 'none'; frame-ancestors 'none'"),
        ),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    ];
    (headers, Body::from_stream(pieces)).into_response()
}

/// Sends the report as text within the server's own document, whose script shows it. If the response is
/// cut off, the script is missing and nothing is shown.
fn frame_response(
    state: &AppState,
    pieces: impl Stream<Item = Result<Vec<u8>, Problem>> + Send + 'static,
) -> Response {
    let ancestor = match (&state.site.reports_url, &state.site.public_url) {
        (Some(_), Some(public)) => public.origin(),
        _ => "'self'",
    };
    let policy = HeaderValue::try_from(format!("{}{ancestor}", *POLICY)).expect("a policy is ASCII");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, policy),
        (HeaderName::from_static("permissions-policy"), PERMISSIONS),
        (HeaderName::from_static("x-dns-prefetch-control"), HeaderValue::from_static("off")),
    ];
    // Browsers ignore the first line break of a text area.
    let opening = "<!doctype html><meta charset=\"utf-8\"><title>Report</title>\
        <textarea id=\"report\" hidden readonly>\n";
    let closing = format!("</textarea><script>{SHOW}</script>");
    let document = stream::once(async move { Ok(opening.as_bytes().to_vec()) })
        .chain(pieces.map(|piece| piece.map(|piece| escape_text_area(&piece))))
        .chain(stream::once(async move { Ok::<_, Problem>(closing.into_bytes()) }));
    (headers, Body::from_stream(document)).into_response()
}

/// Escapes HTML as the text of a text area. Both characters are single bytes, so a piece may begin
/// anywhere.
fn escape_text_area(piece: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(piece.len() + piece.len() / 8);
    for byte in piece {
        match byte {
            b'&' => escaped.extend_from_slice(b"&amp;"),
            b'<' => escaped.extend_from_slice(b"&lt;"),
            other => escaped.push(*other),
        }
    }
    escaped
}

async fn load_piece(
    store: &AccountStore,
    id: PerformanceReportId,
    position: i64,
) -> Result<Option<Vec<u8>>, Problem> {
    match store.performance_report_piece(id, position).await {
        Err(StoreError::Decryption(_)) => {
            Err(Problem::conflict("the key that the performance report is encrypted with is lost"))
        }
        result => Ok(result?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_has_the_path_of_a_content() {
        for (path, expected) in [
            ("/reports/1/content", true),
            ("/reports/1", false),
            ("/reports//content", false),
            ("/reports/content", false),
            ("/reports/1/2/content", false),
            ("/sign-in", false),
        ] {
            assert_eq!(is_content(path), expected, "{path}");
        }
    }

    #[test]
    fn nothing_of_a_report_ends_the_text_area() {
        assert_eq!(escape_text_area("</textarea>&lt;ä".as_bytes()), "&lt;/textarea>&amp;lt;ä".as_bytes());
    }
}
