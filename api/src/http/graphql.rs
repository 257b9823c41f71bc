//! GraphQL over HTTP around async-graphql's executor: JSON bodies only, no mutations on GET, and the status
//! codes of the specification. GraphiQL, from our own files, for browsers.

use std::sync::OnceLock;

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};

use super::{
    address::Source,
    body::{self, Limits},
    budget::Taker,
    credentials::Credentials,
    event_stream,
    media_type::ranges,
    named::Named,
    operation::{Asker, Outcome, Parameters, Refusal, Rendered, Way, errors, execute},
    problem::Problem,
    socket,
    state::AppState,
};

/// How large a query with its variables may be.
const LIMITS: Limits = Limits { sent: 1 << 20, inflated: 1 << 20 };

/// The media type the specification of GraphQL over HTTP adds.
const GRAPHQL_JSON: &str = "application/graphql-response+json";

const EVENT_STREAM: &str = "text/event-stream";

/// The media types an answer can have. The first two differ in the status of a request that could not be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MediaType {
    GraphQl,
    Json,
    EventStream,
}

pub(super) async fn post(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(media_type) = media_type(&headers) else { return not_acceptable() };
    let way = if media_type == MediaType::EventStream { Way::PostForEvents } else { Way::Post };
    let taker = OnceLock::new();
    let outcome = async {
        let announced = body::announced(&headers, LIMITS)?;
        let shown = Credentials::of(state.cookies, &headers)?;
        // Nothing is held in memory for strangers.
        let asker = Asker::signed_in(&state, &shown, origin, &taker).await?;
        let parameters = async {
            let json = announced.receive(body, state.patience.body).await?.json()?;
            if json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
                return Err(Problem::malformed("batches are not supported: send one operation a request"));
            }
            body::parse(&json)
        };
        execute(&state, asker, parameters, way).await
    };
    told(&state, &taker, answer(&state, media_type, outcome.await))
}

pub(super) async fn get(State(state): State<AppState>, Source(origin): Source, request: Request) -> Response {
    let (request, _) = request.into_parts();
    if socket::is_asked_for(&request.headers) {
        return socket::open(state, origin, request);
    }
    let (headers, parameters) = (request.headers, request.uri.query().unwrap_or_default());
    if parameters.is_empty() && accepts(&headers, "text/html") {
        return page();
    }
    let Some(media_type) = media_type(&headers) else { return not_acceptable() };
    let way = if media_type == MediaType::EventStream { Way::GetForEvents } else { Way::Get };
    let taker = OnceLock::new();
    let outcome = async {
        let shown = Credentials::of(state.cookies, &headers)?;
        let asker = Asker::signed_in(&state, &shown, origin, &taker).await?;
        execute(&state, asker, async { from_query_string(parameters) }, way).await
    };
    told(&state, &taker, answer(&state, media_type, outcome.await))
}

/// One of the files of the GraphiQL page.
pub(super) async fn asset(Named(name): Named<String>) -> Response {
    let file = match name.as_str() {
        "graphiql.min.js" => (SCRIPT, include_bytes!("../../assets/graphiql/graphiql.min.js").as_slice()),
        "graphiql.min.css" => (STYLE, include_bytes!("../../assets/graphiql/graphiql.min.css").as_slice()),
        "graphiql-init.js" => (SCRIPT, include_bytes!("../../assets/graphiql/graphiql-init.js").as_slice()),
        "react.production.min.js" => {
            (SCRIPT, include_bytes!("../../assets/graphiql/react.production.min.js").as_slice())
        }
        "react-dom.production.min.js" => {
            (SCRIPT, include_bytes!("../../assets/graphiql/react-dom.production.min.js").as_slice())
        }
        _ => return Problem::not_found().into_response(),
    };
    let (content_type, bytes) = file;
    ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "max-age=3600")], bytes).into_response()
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

fn page() -> Response {
    let policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                  font-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'";
    (
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, policy)],
        include_str!("../../assets/graphiql/index.html"),
    )
        .into_response()
}

fn not_acceptable() -> Response {
    let message = format!("answers are {GRAPHQL_JSON}, application/json or {EVENT_STREAM}");
    Problem::not_acceptable(message).into_response()
}

/// The answer, which says what is left to whoever signed in.
fn told(state: &AppState, taker: &OnceLock<Taker>, response: Response) -> Response {
    match taker.get() {
        Some(taker) => state.query_budget.tell(*taker, response),
        None => response,
    }
}

/// Writes the answer in the media type the client asked for.
fn answer(state: &AppState, media_type: MediaType, outcome: Result<Outcome, Refusal>) -> Response {
    let rendered = match outcome {
        Ok(Outcome::Answer(response)) => (*response).into(),
        Ok(Outcome::Subscription(subscription)) => {
            return event_stream::lasting(*subscription, state.patience.heartbeat);
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
    typed(response, media_type)
}

fn typed(mut response: Response, media_type: MediaType) -> Response {
    let content_type = match media_type {
        MediaType::GraphQl => "application/graphql-response+json; charset=utf-8",
        // What is refused before there are events is no event.
        MediaType::Json | MediaType::EventStream => "application/json; charset=utf-8",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn from_query_string(query: &str) -> Result<Parameters, Problem> {
    let mut parameters = Map::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
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

/// The first of our media types the client lists; JSON when it lists none or anything goes.
fn media_type(headers: &HeaderMap) -> Option<MediaType> {
    let Some(accept) = headers.get(header::ACCEPT) else { return Some(MediaType::Json) };
    let accept = accept.to_str().ok()?;
    ranges(accept).find_map(|range| match range.as_str() {
        GRAPHQL_JSON => Some(MediaType::GraphQl),
        EVENT_STREAM => Some(MediaType::EventStream),
        "application/json" | "application/*" | "*/*" => Some(MediaType::Json),
        _ => None,
    })
}

fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| ranges(accept).any(|range| range == media_type))
}
