//! GraphQL over HTTP with async-graphql's executor: JSON bodies only, no mutations by GET, and the
//! status codes of the specification. Serves GraphiQL to browsers.

mod event_stream;
mod operation;
pub(super) mod operations;
pub(super) mod socket;

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};

use self::operation::{Outcome, Parameters, Refusal, Rendered, Transport, errors, execute};
use super::{
    extract::{
        body::{self, Limits},
        caller::Caller,
        credentials::Credentials,
        media_type::Accepted,
        origin::RequestOrigin,
        problem::Problem,
    },
    middleware::{rate_limit::LimitKeys, response_compression::Uncompressed},
    pages::{dashboard, page::Page, static_file::Caching},
    server::state::AppState,
};
use crate::{domain::audit::Origin, guard::Kind};

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
    let transport =
        if media_type == MediaType::EventStream { Transport::PostForEvents } else { Transport::Post };
    let timeout = state.timeouts.body_timeout;
    let parameters = body::check_headers(&headers, LIMITS).map(|reader| async move {
        let json = reader.receive(body, timeout).await?.json()?;
        if json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return Err(Problem::malformed("batches are not supported: send one operation a request"));
        }
        body::parse(&json)
    });
    respond(&state, &headers, origin, (transport, media_type), parameters).await
}

pub(super) async fn get(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    request: Request,
) -> Response {
    let (request, _) = request.into_parts();
    if socket::is_upgrade(&request.headers) {
        return socket::open(state, origin, request).await;
    }
    let (headers, parameters) = (request.headers, request.uri.query().unwrap_or_default());
    if parameters.is_empty() && Accepted::of(&headers).names("text/html") {
        return state
            .site
            .hosts
            .check(&headers)
            .map_or_else(Problem::into_response, |()| page(&state, &headers));
    }
    let Some(media_type) = media_type(&headers) else { return not_acceptable() };
    let transport =
        if media_type == MediaType::EventStream { Transport::GetForEvents } else { Transport::Get };
    let parameters = async { from_query_string(parameters) };
    respond(&state, &headers, origin, (transport, media_type), Ok(parameters)).await
}

/// Authenticates the caller and executes the operation. Its parameters are read after authentication, so
/// that unauthenticated callers occupy no memory.
async fn respond(
    state: &AppState,
    headers: &HeaderMap,
    origin: Origin,
    (transport, media_type): (Transport, MediaType),
    parameters: Result<impl Future<Output = Result<Parameters, Problem>>, Problem>,
) -> Response {
    let mut limit_keys = None;
    let outcome = async {
        let parameters = parameters?;
        let credentials = Credentials::of(&state.site.cookies, headers)?;
        let caller = Caller::authenticate(state, &credentials, origin).await?;
        limit_keys = Some(caller.limit_keys);
        caller.check_points(state)?;
        execute(state, caller, &credentials, parameters, transport).await
    }
    .await;
    with_quota_headers(state, limit_keys, answer(state, media_type, outcome))
}

/// Serves GraphiQL, or without a build of it a page that says how to get one.
fn page(state: &AppState, headers: &HeaderMap) -> Response {
    let Some(page) = state.site.dashboard.as_ref().and_then(|dashboard| dashboard.graphiql()) else {
        let notice = match &state.site.dashboard {
            Some(_) => "<p>This build of the dashboard has no GraphiQL.</p>",
            None => dashboard::missing_dashboard_notice(state),
        };
        let text = format!("<p>The GraphQL API takes queries by POST at this address.</p>{notice}");
        return Page::new("GraphQL", text).with_home_link().render(&state.site.base);
    };
    // GraphiQL adds style elements, and its style contains its fonts and images.
    let policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                  font-src 'self' data:; frame-ancestors 'none'; base-uri 'self'";
    let mut response = page.respond(headers, Caching::Revalidated);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.append(header::VARY, HeaderValue::from_name(header::ACCEPT));
    response
}

fn not_acceptable() -> Response {
    let message = format!("responses are available as {GRAPHQL_JSON}, {JSON} or {EVENT_STREAM}");
    Problem::not_acceptable(message).into_response()
}

/// Adds the headers with the remaining quota, if the caller was authenticated.
fn with_quota_headers(state: &AppState, limit_keys: Option<LimitKeys>, response: Response) -> Response {
    match limit_keys {
        Some(limit_keys) => state.query_limiter.set_headers(limit_keys, response),
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
            return event_stream::result_stream(*subscription, state.timeouts.heartbeat_interval);
        }
        Err(Refusal::Request(problem)) => {
            return typed(problem.with_body(Json(errors(&[(&problem).into()]))), media_type);
        }
        Err(refusal) => refusal.into(),
    };
    let response = match (rendered, media_type) {
        (rendered, MediaType::EventStream) => return event_stream::single_result(rendered),
        (Rendered::Refused(refusal_errors), MediaType::GraphQl) => {
            (StatusCode::BAD_REQUEST, Json(errors(&refusal_errors))).into_response()
        }
        (Rendered::Refused(refusal_errors), MediaType::Json) => Json(errors(&refusal_errors)).into_response(),
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
