//! `GET /api/v1/export/…`: lists as files, streamed page by page.
//!
//! A page is read when the client has taken what came before it, and nothing is held meanwhile: no connection to the
//! database, no rows but those of the next piece. What goes wrong after the first piece ends the connection, so that no
//! client takes a part for the whole.

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

use super::{
    address::Source, budget::Taker, export_api, media_type::ranges, named::Named, problem::Problem,
    state::AppState,
};
use crate::{
    auth::Viewer,
    export::{Export, File, Format, Of, Page, Reading},
};

/// Points that a page costs besides its rows: it is read by a statement or a few.
const PAGE: u64 = 1_000;

/// Seconds for which it is believed that the credentials are still good. The first page is read right after they were
/// verified.
const BELIEF_SECONDS: u64 = 1;

/// The routes of all exports, described.
pub(super) fn routes(exports: &[Arc<Export>]) -> OpenApiRouter<AppState> {
    let mut router = OpenApiRouter::new();
    for export in exports {
        let operation = export_api::operation(export);
        let paths = &mut router.get_openapi_mut().paths;
        paths.add_path_operation(&export.path, vec![utoipa::openapi::HttpMethod::Get], operation);
        let path = &export.path;
        let export = Arc::clone(export);
        let method = if export.of == Of::Account {
            get(async move |State(state): State<AppState>, asked: Asked| {
                answer(state, export, None, asked).await
            })
        } else {
            get(async move |State(state): State<AppState>, Named(id): Named<String>, asked: Asked| {
                answer(state, export, Some(id), asked).await
            })
        };
        router = router.route(path, method);
    }
    router
}

/// What is looked at of a request.
#[derive(axum::extract::FromRequestParts)]
struct Asked {
    version: Version,
    source: Source,
    headers: HeaderMap,
    query: RawQuery,
}

async fn answer(
    state: AppState,
    export: Arc<Export>,
    id: Option<String>,
    Asked { version, source: Source(origin), headers, query: RawQuery(query) }: Asked,
) -> Result<Response, Problem> {
    if version < Version::HTTP_11 {
        return Err(Problem::http_version());
    }
    let query = query.unwrap_or_default();
    let format = format(&headers, &query)?;
    let viewer = state.viewer(&headers, Scope::Read).await?;
    let taker = Taker::new(viewer.limit_key(), origin.address);
    state.query_budget.check(taker)?;
    let being_read = state.query_budget.reading(taker);
    let parameters = parameters(&export, &query)?;
    let of = id.unwrap_or_else(|| viewer.account().slug.clone());
    let reading = Reading::new(Arc::clone(&export), of, parameters, origin);
    let file = File::new(Arc::clone(&export), format)?;
    let mut download = Download {
        state: state.clone(),
        headers,
        viewer,
        taker,
        verified: Instant::now(),
        export: Arc::clone(&export),
        reading,
        file,
        first: None,
    };
    // What is wrong with the parameters shows here, and can be told.
    download.first = download.page().await?;
    being_read.accepted();
    let name = format!("attachment; filename=\"{}.{}\"", export.name, format.extension());
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(format.content_type())),
        (header::CONTENT_DISPOSITION, HeaderValue::try_from(name).expect("names of fields are ASCII")),
        (header::VARY, HeaderValue::from_static("Accept, Authorization")),
    ];
    let response = (headers, Body::from_stream(download.pieces())).into_response();
    Ok(state.query_budget.tell(taker, response))
}

/// An export on its way to a client.
struct Download {
    state: AppState,
    /// The request's, which hold the credentials.
    headers: HeaderMap,
    viewer: Viewer,
    /// Who pays for it.
    taker: Taker,
    /// When the credentials were last good.
    verified: Instant,
    export: Arc<Export>,
    reading: Reading,
    file: File,
    /// The page that was read before anything was answered.
    first: Option<Page>,
}

impl Download {
    /// The file in pieces, each made when it is asked for.
    fn pieces(self) -> impl Stream<Item = Result<Vec<u8>, Problem>> {
        stream::try_unfold(Some(self), async |download| {
            let Some(mut download) = download else { return Ok(None) };
            let piece = download.piece().await.inspect_err(|problem| {
                tracing::warn!(code = problem.code(), reason = problem.message(), "an export was cut off");
            })?;
            Ok(match piece {
                Some(piece) => Some((piece, Some(download))),
                None => Some((download.file.end()?, None)),
            })
        })
    }

    /// The next piece of the file; none when only its end is missing.
    async fn piece(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        loop {
            let page = match self.first.take() {
                Some(page) => Some(page),
                None => self.next_page().await?,
            };
            let Some(page) = page else { return Ok(None) };
            if let Some(piece) = self.file.add(&page)? {
                return Ok(Some(piece));
            }
        }
    }

    /// The page after another one, when the token may have it.
    async fn next_page(&mut self) -> Result<Option<Page>, Problem> {
        loop {
            let pause = self.state.query_budget.pause(self.taker);
            if pause.is_zero() {
                break;
            }
            sleep(pause).await;
        }
        if self.verified.elapsed().as_secs() >= BELIEF_SECONDS {
            self.viewer = self.state.viewer(&self.headers, Scope::Read).await?;
            self.verified = Instant::now();
        }
        self.page().await
    }

    async fn page(&mut self) -> Result<Option<Page>, Problem> {
        let (budget, taker) = (&self.state.query_budget, self.taker);
        let left = budget.charge(taker, PAGE, self.state.clock.timestamp());
        let page = self.reading.next(&self.state.exports, &self.viewer, left).await?;
        if let Some(page) = &page {
            budget.charge(taker, page.cost(&self.export), self.state.clock.timestamp());
        }
        Ok(page)
    }
}

/// The format that `format` names, or else the first of ours that the client accepts; CSV when anything goes.
fn format(headers: &HeaderMap, query: &str) -> Result<Format, Problem> {
    let named = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == FORMAT);
    if let Some((_, named)) = named {
        let format = Format::ALL.into_iter().find(|format| format.name() == named);
        return format.ok_or_else(|| Problem::parameter(FORMAT, "must be 'arrow' or 'csv'"));
    }
    let accept = match headers.get(header::ACCEPT) {
        None => "*/*",
        Some(accept) => accept.to_str().unwrap_or_default(),
    };
    let found = ranges(accept).find_map(|range| match range.as_str() {
        "*/*" | "text/*" => Some(Format::Csv),
        "application/*" => Some(Format::Arrow),
        range => Format::ALL.into_iter().find(|format| format.media_type() == range),
    });
    let [arrow, csv] = Format::ALL.map(Format::media_type);
    found.ok_or_else(|| Problem::not_acceptable(format!("exports are {arrow} or {csv}")))
}

/// The parameter that names the format.
pub(super) const FORMAT: &str = "format";

/// The arguments of the export's field.
fn parameters(export: &Export, query: &str) -> Result<Map<String, Value>, Problem> {
    let mut parameters = Map::new();
    let mut formats = 0;
    for (name, text) in form_urlencoded::parse(query.as_bytes()) {
        if name == FORMAT {
            formats += 1;
            if formats > 1 {
                return Err(Problem::parameter(FORMAT, "can be given once"));
            }
            continue;
        }
        let Some(known) = export.parameters.iter().find(|known| known.name == name) else {
            let known: Vec<_> = export.parameters.iter().map(|known| known.name.as_str()).collect();
            let known = [&[FORMAT], known.as_slice()].concat().join(", ");
            return Err(Problem::parameter(&name, &format!("is none of this list, which has: {known}")));
        };
        let value = if known.is_json {
            serde_json::from_str(&text)
                .map_err(|_| Problem::parameter(&name, &format!("must be JSON, for {}", known.ty)))?
        } else {
            Value::String(text.into_owned())
        };
        if parameters.insert(name.to_string(), value).is_some() {
            return Err(Problem::parameter(&name, "can be given once"));
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
            super::format(&headers, query).map_err(|problem| problem.code())
        };
        for (accept, query, expected) in [
            (None, "", Ok(Format::Csv)),
            (Some("*/*"), "", Ok(Format::Csv)),
            (Some("application/vnd.apache.arrow.stream"), "", Ok(Format::Arrow)),
            (Some("text/html, text/csv;q=0.9, */*;q=0.1"), "", Ok(Format::Csv)),
            (Some("application/json"), "", Err("NOT_ACCEPTABLE")),
            (Some("application/json"), "format=arrow", Ok(Format::Arrow)),
            (Some("text/csv"), "match=x&format=arrow", Ok(Format::Arrow)),
            (None, "format=xml", Err("INVALID_PARAMETER")),
        ] {
            assert_eq!(format(accept, query), expected, "{accept:?} {query}");
        }
    }
}
