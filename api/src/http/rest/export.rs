//! `GET /api/v1/export/…`: lists as files, streamed page by page.
//!
//! A page is read after the client has taken the previous one. In between, the server holds neither a
//! database connection nor rows beyond the next chunk. An error after the first chunk closes the
//! connection, so that no client mistakes a part for the whole file.

use std::{sync::Arc, time::Instant};

use axum::{
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, HeaderValue, Version, header},
    response::{IntoResponse, Response},
    routing::get,
};
use entity::api_token::Scope;
use futures::{Stream, stream};
use serde_json::{Map, Value};
use tokio::time::sleep;
use utoipa_axum::router::OpenApiRouter;

use super::export_api;
use crate::{
    export::{Export, ExportReader, File, Format, ListParent, Page, exports},
    http::{
        extract::{
            caller::Caller, credentials::Credentials, media_type::Accepted, origin::RequestOrigin,
            path::PathParams, problem::Problem,
        },
        server::state::AppState,
    },
};

/// The cost in points of a page without its rows: it takes one statement or a few.
const PAGE_COST: u64 = 1_000;

/// The time in seconds after which the credentials are verified again. The first page is read right
/// after their verification.
const VERIFICATION_SECONDS: u64 = 1;

/// Returns the routes of all exports with their descriptions.
pub(crate) fn routes(exports: &[Arc<Export>]) -> OpenApiRouter<AppState> {
    let mut router = OpenApiRouter::new();
    for export in exports {
        let operation = export_api::operation(export);
        let paths = &mut router.get_openapi_mut().paths;
        paths.add_path_operation(&export.path, vec![utoipa::openapi::HttpMethod::Get], operation);
        let path = &export.path;
        let export = Arc::clone(export);
        let method = if export.parent == ListParent::Account {
            get(async move |State(state): State<AppState>, request: ExportRequest| {
                Box::pin(send_export(state, export, None, request)).await
            })
        } else {
            get(
                async move |State(state): State<AppState>,
                            PathParams(id): PathParams<String>,
                            request: ExportRequest| {
                    Box::pin(send_export(state, export, Some(id), request)).await
                },
            )
        };
        router = router.route(path, method);
    }
    router
}

/// Returns the names of the exports with the same parent as a path. If no export has it, the parent is the
/// account.
pub(crate) fn related_export_names(path: &str) -> String {
    let kind = path.split_once('/').map(|(kind, _)| format!("/{kind}/{{id}}/"));
    let exports = exports();
    let exports_below =
        |kind: &str| exports.iter().filter(|export| export.path.contains(kind)).collect::<Vec<_>>();
    let mut related = kind.as_deref().map(exports_below).unwrap_or_default();
    if related.is_empty() {
        related = exports.iter().filter(|export| export.parent == ListParent::Account).collect();
    }
    let mut names: Vec<&str> = related.iter().map(|export| export.name.as_str()).collect();
    names.sort_unstable();
    let parent = related.first().map_or("an account", |export| export.parent.noun());
    format!("the exports of {parent} are {}", names.join(", "))
}

/// The parts of a request that an export depends on.
#[derive(axum::extract::FromRequestParts)]
struct ExportRequest {
    version: Version,
    origin: RequestOrigin,
    headers: HeaderMap,
    query: RawQuery,
}

async fn send_export(
    state: AppState,
    export: Arc<Export>,
    id: Option<String>,
    ExportRequest { version, origin: RequestOrigin(origin), headers, query: RawQuery(query) }: ExportRequest,
) -> Result<Response, Problem> {
    if version < Version::HTTP_11 {
        return Err(Problem::http_version());
    }
    let query = query.unwrap_or_default();
    let format = select_format(&headers, &query)?;
    let credentials = Credentials::of(&state.site.cookies, &headers)?;
    let caller = Caller::admit(&state, &credentials, origin).await?;
    let limit_keys = caller.limit_keys;
    let refusal_charge = state.query_limiter.begin_reading(limit_keys);
    let parameters = parse_parameters(&export, &query)?;
    let parent = id.unwrap_or_else(|| caller.viewer.account().slug.clone());
    let reader = ExportReader::new(Arc::clone(&export), parent, parameters, origin);
    let file = File::new(Arc::clone(&export), format)?;
    let mut download = Download {
        state: state.clone(),
        credentials,
        caller,
        verified_at: Instant::now(),
        export: Arc::clone(&export),
        reader,
        file,
        first_page: None,
    };
    // An invalid parameter fails the first page, while the response can still be an error.
    download.first_page = Box::pin(download.read_page()).await?;
    refusal_charge.accept();
    let name = format!("attachment; filename=\"{}.{}\"", export.name, format.extension());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(format.content_type())),
        (header::CONTENT_DISPOSITION, HeaderValue::try_from(name).expect("names of fields are ASCII")),
        (header::VARY, HeaderValue::from_static("Accept, Authorization")),
    ];
    let response = (headers, Body::from_stream(download.into_chunks())).into_response();
    Ok(state.query_limiter.set_headers(limit_keys, response))
}

/// A running export.
struct Download {
    state: AppState,
    credentials: Credentials,
    caller: Caller,
    /// The time of the last verification of the credentials.
    verified_at: Instant,
    export: Arc<Export>,
    reader: ExportReader,
    file: File,
    /// The page that was read before the response began.
    first_page: Option<Page>,
}

impl Download {
    /// Returns the file in chunks, each produced on demand.
    fn into_chunks(self) -> impl Stream<Item = Result<Vec<u8>, Problem>> {
        stream::try_unfold(Some(self), async |download| {
            let Some(mut download) = download else { return Ok(None) };
            let chunk = Box::pin(download.next_chunk()).await.inspect_err(|problem| {
                tracing::warn!(code = problem.code(), reason = problem.message(), "export truncated");
            })?;
            Ok(match chunk {
                Some(chunk) => Some((chunk, Some(download))),
                None => Some((download.file.end()?, None)),
            })
        })
    }

    /// Returns the next chunk of the file. Returns None if only its end is missing.
    async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        loop {
            let page = match self.first_page.take() {
                Some(page) => Some(page),
                None => self.next_page().await?,
            };
            let Some(page) = page else { return Ok(None) };
            if let Some(chunk) = self.file.add(&page)? {
                return Ok(Some(chunk));
            }
        }
    }

    /// Returns the next page, after waiting for the rate limiter and verifying the credentials.
    async fn next_page(&mut self) -> Result<Option<Page>, Problem> {
        loop {
            let pause = self.state.query_limiter.export_delay(self.caller.limit_keys);
            if pause.is_zero() {
                break;
            }
            sleep(pause).await;
        }
        if self.verified_at.elapsed().as_secs() >= VERIFICATION_SECONDS {
            self.caller.viewer = self.state.viewer_with(&self.credentials, Scope::Read).await?;
            self.verified_at = Instant::now();
        }
        Box::pin(self.read_page()).await
    }

    async fn read_page(&mut self) -> Result<Option<Page>, Problem> {
        let (limiter, limit_keys) = (&self.state.query_limiter, self.caller.limit_keys);
        let rate_limit = limiter.charge(limit_keys, PAGE_COST, self.state.clock.timestamp());
        let time_charge = limiter.begin_operation(limit_keys, PAGE_COST);
        let page_future = self.reader.next_page(&self.state.exports, &self.caller.viewer, rate_limit);
        let page = time_charge.time().count(page_future).await?;
        time_charge.finish();
        if let Some(page) = &page {
            limiter.charge(limit_keys, page.cost(&self.export), self.state.clock.timestamp());
        }
        Ok(page)
    }
}

/// Returns the format from the parameter `format`, or the client's most preferred one. The default is
/// CSV.
fn select_format(headers: &HeaderMap, query: &str) -> Result<Format, Problem> {
    let requested = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == FORMAT);
    if let Some((_, requested)) = requested {
        let format = Format::ALL.into_iter().find(|format| format.name() == requested);
        return format.ok_or_else(|| Problem::parameter(FORMAT, "must be 'arrow' or 'csv'"));
    }
    let accepted = Accepted::of(headers);
    let format = accepted
        .best(&[(Format::Csv.media_type(), Format::Csv), (Format::Arrow.media_type(), Format::Arrow)]);
    let [arrow, csv] = Format::ALL.map(Format::media_type);
    format.ok_or_else(|| Problem::not_acceptable(format!("exports are available as {arrow} or {csv}")))
}

/// The parameter that selects the format.
pub(crate) const FORMAT: &str = "format";

/// Parses the query as the arguments of the export's field.
fn parse_parameters(export: &Export, query: &str) -> Result<Map<String, Value>, Problem> {
    let mut parameters = Map::new();
    let mut format_count = 0;
    for (name, text) in form_urlencoded::parse(query.as_bytes()) {
        if name == FORMAT {
            format_count += 1;
            if format_count > 1 {
                return Err(Problem::parameter(FORMAT, "can be given only once"));
            }
            continue;
        }
        let Some(parameter) = export.parameters.iter().find(|parameter| parameter.name == name) else {
            let known_names: Vec<_> =
                export.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
            let known_names = [&[FORMAT], known_names.as_slice()].concat().join(", ");
            return Err(Problem::parameter(
                &name,
                &format!("is not a parameter of this list; its parameters are {known_names}"),
            ));
        };
        let value = if parameter.is_json {
            serde_json::from_str(&text)
                .map_err(|_| Problem::parameter(&name, &format!("must be JSON, for {}", parameter.ty)))?
        } else {
            Value::String(text.into_owned())
        };
        if parameters.insert(name.to_string(), value).is_some() {
            return Err(Problem::parameter(&name, "can be given only once"));
        }
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_first_that_fits() {
        let format = |accept: Option<&str>, query: &str| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().expect("a header"));
            }
            select_format(&headers, query).map_err(|problem| problem.code())
        };
        for (accept, query, expected) in [
            (None, "", Ok(Format::Csv)),
            (Some("*/*"), "", Ok(Format::Csv)),
            (Some("application/vnd.apache.arrow.stream"), "", Ok(Format::Arrow)),
            (Some("text/html, text/csv;q=0.9, */*;q=0.1"), "", Ok(Format::Csv)),
            (Some("text/csv;q=0.1, application/*"), "", Ok(Format::Arrow)),
            (Some("text/csv;q=0, */*"), "", Ok(Format::Arrow)),
            (Some("application/vnd.apache.arrow.stream;q=0, text/*;q=0, */*"), "", Err("NOT_ACCEPTABLE")),
            (Some("application/json"), "", Err("NOT_ACCEPTABLE")),
            (Some("application/json"), "format=arrow", Ok(Format::Arrow)),
            (Some("text/csv"), "match=x&format=arrow", Ok(Format::Arrow)),
            (None, "format=xml", Err("INVALID_PARAMETER")),
        ] {
            assert_eq!(format(accept, query), expected, "{accept:?} {query}");
        }
    }
}
