//! GraphQL over HTTP with async-graphql's executor: JSON bodies only, no mutations by GET, and the
//! status codes of the specification. Serves GraphiQL to browsers from files of the server.

use std::sync::OnceLock;

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use super::{
    body::{self, Limits},
    content_coding::ContentCoding,
    credentials::Credentials,
    event_stream,
    media_type::Accepted,
    operation::{AuthenticatedCaller, Outcome, Parameters, Refusal, Rendered, Transport, errors, execute},
    origin::RequestOrigin,
    path::PathParams,
    problem::Problem,
    rate_limit::LimitKeys,
    response_compression::{Uncompressed, gzip_file},
    socket,
    state::AppState,
    static_file::{Caching, StaticFile},
};
use crate::{blocking_work::run_blocking, guard::Kind};

/// The size limits of a query with its variables.
const LIMITS: Limits = Limits { sent: 1 << 20, inflated: 1 << 20 };

/// The media type that the specification of GraphQL over HTTP adds.
const GRAPHQL_JSON: &str = "application/graphql-response+json";

const JSON: &str = "application/json";

const EVENT_STREAM: &str = "text/event-stream";

/// The media types of a response. The first two differ in the status of a request that was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MediaType {
    GraphQl,
    Json,
    EventStream,
}

pub(super) async fn post(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(media_type) = media_type(&headers) else { return not_acceptable() };
    let way = if media_type == MediaType::EventStream { Transport::PostForEvents } else { Transport::Post };
    let taker = OnceLock::new();
    let outcome = async {
        let announced = body::check_headers(&headers, LIMITS)?;
        let shown = Credentials::of(&state.cookies, &headers)?;
        // The body is read after authentication, so that unauthenticated callers occupy no memory.
        let asker = AuthenticatedCaller::signed_in(&state, &shown, origin, &taker).await?;
        let parameters = async {
            let json = announced.receive(body, state.timeouts.body).await?.json()?;
            if json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
                return Err(Problem::malformed("batches are not supported: send one operation a request"));
            }
            body::parse(&json)
        };
        execute(&state, asker, parameters, way).await
    };
    with_quota_headers(&state, &taker, answer(&state, media_type, outcome.await))
}

pub(super) async fn get(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    request: Request,
) -> Response {
    let (request, _) = request.into_parts();
    if socket::is_asked_for(&request.headers) {
        return socket::open(state, origin, request).await;
    }
    let (headers, parameters) = (request.headers, request.uri.query().unwrap_or_default());
    if parameters.is_empty() && Accepted::of(&headers).names("text/html") {
        return state.hosts.check(&headers).map_or_else(Problem::into_response, |()| page(&state));
    }
    let Some(media_type) = media_type(&headers) else { return not_acceptable() };
    let way = if media_type == MediaType::EventStream { Transport::GetForEvents } else { Transport::Get };
    let taker = OnceLock::new();
    let outcome = async {
        let shown = Credentials::of(&state.cookies, &headers)?;
        let asker = AuthenticatedCaller::signed_in(&state, &shown, origin, &taker).await?;
        execute(&state, asker, async { from_query_string(parameters) }, way).await
    };
    with_quota_headers(&state, &taker, answer(&state, media_type, outcome.await))
}

/// A file of the GraphiQL page with its name. It is compressed when it is first requested.
struct Asset(&'static str, &'static [u8], OnceCell<StaticFile>);

static ASSETS: [Asset; 5] = [
    Asset(
        "graphiql-init.js",
        include_bytes!("../../assets/graphiql/graphiql-init.js"),
        OnceCell::const_new(),
    ),
    Asset(
        "graphiql.min.css",
        include_bytes!("../../assets/graphiql/graphiql.min.css"),
        OnceCell::const_new(),
    ),
    Asset("graphiql.min.js", include_bytes!("../../assets/graphiql/graphiql.min.js"), OnceCell::const_new()),
    Asset(
        "react-dom.production.min.js",
        include_bytes!("../../assets/graphiql/react-dom.production.min.js"),
        OnceCell::const_new(),
    ),
    Asset(
        "react.production.min.js",
        include_bytes!("../../assets/graphiql/react.production.min.js"),
        OnceCell::const_new(),
    ),
];

/// Serves a file of the GraphiQL page.
pub(super) async fn asset(PathParams(name): PathParams<String>, headers: HeaderMap) -> Response {
    let Some(Asset(name, plain, file)) = ASSETS.iter().find(|Asset(known, ..)| *known == name) else {
        return Problem::not_found().into_response();
    };
    let compress = || async {
        let compressed = run_blocking(|| gzip_file(plain)).await;
        StaticFile::new(name, Bytes::from_static(plain), vec![(ContentCoding::Gzip, compressed)])
    };
    file.get_or_init(compress).await.respond(&headers, Caching::Hour)
}

fn page(state: &AppState) -> Response {
    let policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                  font-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'";
    let assets = format!("\"{}", state.base.address("/graphql/assets/"));
    let html = include_str!("../../assets/graphiql/index.html").replace("\"/graphql/assets/", &assets);
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, policy)];
    (headers, html).into_response()
}

fn not_acceptable() -> Response {
    let message = format!("responses are available as {GRAPHQL_JSON}, {JSON} or {EVENT_STREAM}");
    Problem::not_acceptable(message).into_response()
}

/// Adds the headers with the remaining quota, if the caller was authenticated.
fn with_quota_headers(state: &AppState, taker: &OnceLock<LimitKeys>, response: Response) -> Response {
    match taker.get() {
        Some(taker) => state.query_budget.set_headers(*taker, response),
        None => response,
    }
}

/// Encodes the result in the client's media type.
fn answer(state: &AppState, media_type: MediaType, outcome: Result<Outcome, Refusal>) -> Response {
    let mut is_mutation = false;
    let rendered = match outcome {
        Ok(Outcome::Answer(response, kind)) => {
            is_mutation = kind == Kind::Mutation;
            (*response).into()
        }
        Ok(Outcome::Subscription(subscription)) => {
            return event_stream::lasting(*subscription, state.timeouts.heartbeat);
        }
        Err(Refusal::Request(problem)) => {
            return typed(problem.with_body(Json(errors(&[(&problem).into()]))), media_type);
        }
        Err(refusal) => refusal.into(),
    };
    let response = match (rendered, media_type) {
        (rendered, MediaType::EventStream) => return event_stream::once(rendered),
        (Rendered::Refused(wrong), MediaType::GraphQl) => {
            (StatusCode::BAD_REQUEST, Json(errors(&wrong))).into_response()
        }
        (Rendered::Refused(wrong), MediaType::Json) => Json(errors(&wrong)).into_response(),
        (Rendered::Executed(json), _) => Body::from(Bytes::from(json)).into_response(),
    };
    let mut response = typed(response, media_type);
    // Mutations return new tokens and invitations beside their arguments.
    if is_mutation {
        response.extensions_mut().insert(Uncompressed);
    }
    response
}

fn typed(mut response: Response, media_type: MediaType) -> Response {
    let content_type = match media_type {
        MediaType::GraphQl => "application/graphql-response+json; charset=utf-8",
        // A request that is rejected before its event stream starts gets a JSON response.
        MediaType::Json | MediaType::EventStream => "application/json; charset=utf-8",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn from_query_string(query: &str) -> Result<Parameters, Problem> {
    let mut parameters = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        // Some clients and forms always send these parameters, with an empty value if they do not use
        // them.
        if value.is_empty() && name != "query" {
            continue;
        }
        let value = match &*name {
            "query" | "operationName" | "documentId" => Value::String(value.into_owned()),
            "variables" | "extensions" => serde_json::from_str(&value).map_err(|_| {
                Problem::invalid(format!("/{name}"), format!("'{name}' must be a JSON object"))
            })?,
            _ => continue,
        };
        parameters.insert(name.into_owned(), value);
    }
    body::parse(Value::Object(parameters).to_string().as_bytes())
}

/// Returns the client's most preferred media type. The default is JSON.
fn media_type(headers: &HeaderMap) -> Option<MediaType> {
    Accepted::of(headers).best(&[
        (JSON, MediaType::Json),
        (GRAPHQL_JSON, MediaType::GraphQl),
        (EVENT_STREAM, MediaType::EventStream),
    ])
}
