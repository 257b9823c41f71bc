//! Every address, and what all of them have in common.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::Request,
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use tower::{ServiceBuilder, util::option_layer};
use tower_http::{
    catch_panic::CatchPanicLayer,
    trace::{DefaultOnResponse, OnResponse, TraceLayer},
};
use tracing::{Span, field::Empty};
use utoipa::{
    OpenApi,
    openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    activate_token,
    address::{self, request_id},
    api_token, client_span, cluster_page, coiled, export, forgery, graphql, health, landing, metrics, oidc,
    policy, preload,
    problem::Problem,
    report, session, shown_report, sign_in,
    state::AppState,
};
use crate::{auth::CALLBACK, export::exports, telemetry};

/// The REST routes' description, without the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Galvo",
        description = "REST routes of the Galvo analytics server for Dask. Questions are asked at /graphql.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    modifiers(&Token),
    tags(
        (name = "ingest", description = "What schedulers report."),
        (name = "export", description = "Lists as files."),
        (name = "sign-in", description = "What pages of the server itself ask."),
        (name = "plugin", description = "What runs on schedulers."),
        (name = "coiled", description = "What the published `coiled` client calls."),
        (name = "operations", description = "What operators watch."),
    )
)]
struct Description;

struct Token;

impl utoipa::Modify for Token {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("<identifier>-<secret>")
            .description(Some("An API token. The words Token and ApiToken may stand for Bearer."))
            .build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
        let cookie = ApiKeyValue::with_description(
            "galvo_session",
            "What /sign-in gives a browser, called __Host-galvo behind TLS. It is taken wherever a token is; with requests \
             other than GET the header Galvo-CSRF has to carry what /api/v1/session tells.",
        );
        components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    }
}

/// All routes with their handlers.
pub fn router(state: AppState) -> Router {
    let origins = (Arc::clone(&state.proxies), state.cookies.secure);
    let (cors, counting) = (policy::cors(&state.cors_origins), state.clone());
    let (described, openapi) = described().split_for_parts();
    let api = described
        .route("/graphql", get(graphql::get).post(graphql::post))
        .route("/graphql/assets/{name}", get(graphql::asset))
        .route("/api/v1/openapi.json", get(async move || Json(openapi)))
        .layer(axum::middleware::from_fn_with_state(state.clone(), forgery::guard));
    // Forms carry the token of a session in a field, and what takes them looks for it there.
    let pages = Router::new()
        .route("/", get(landing::get))
        .route("/sign-in", get(sign_in::get).post(sign_in::post))
        .route("/sign-in/oidc", get(oidc::get))
        .route(CALLBACK, get(oidc::callback))
        .route("/sign-out", axum::routing::post(sign_in::sign_out))
        .route("/password", get(sign_in::password).post(sign_in::change_password))
        .route("/clusters/{id}", get(cluster_page::get))
        .route("/reports/{id}", get(shown_report::get))
        .route("/activate-token", get(activate_token::get).post(activate_token::post));
    let routes = api
        .merge(pages)
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(state)
        .layer(
            ServiceBuilder::new()
                .layer(middleware::from_fn_with_state(origins, address::mark))
                .layer(
                    TraceLayer::new_for_http()
                        // The query string holds queries and their variables.
                        .make_span_with(|request: &Request| {
                            let (method, path) = (request.method(), request.uri().path());
                            let id = request_id(request).map(tracing::field::display);
                            let span = tracing::debug_span!(
                                "request",
                                %method,
                                path,
                                id,
                                otel.name = Empty,
                                otel.kind = Empty
                            );
                            telemetry::follow(&span, request);
                            span
                        })
                        .on_response(|answer: &Response, latency, span: &Span| {
                            telemetry::answer(span, answer);
                            DefaultOnResponse::new().on_response(answer, latency, span);
                        })
                        // Whoever made the answer has said what failed, and why.
                        .on_failure(()),
                )
                .layer(middleware::from_fn_with_state(counting, metrics::count))
                .layer(option_layer(cors))
                .layer(CatchPanicLayer::custom(panicked)),
        );
    // In front of all routes, which are found before their layers are.
    Router::new().fallback_service(ServiceBuilder::new().map_request(with_one_slash).service(routes))
}

/// What operators watch, on an address of its own. Nothing of it is for those who use the server.
pub fn operations(state: AppState) -> Router {
    let origins = (Arc::clone(&state.proxies), false);
    Router::new()
        .route("/metrics", get(metrics::get_of_everybody))
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(state)
        .layer(
            ServiceBuilder::new()
                .layer(middleware::from_fn_with_state(origins, address::mark))
                .layer(CatchPanicLayer::custom(panicked)),
        )
}

/// The same request for a path that begins with one slash. A server setting that ends in a slash makes the `coiled` client ask
/// for paths that begin with two.
fn with_one_slash(mut request: Request) -> Request {
    let (path, query) = (request.uri().path(), request.uri().query());
    if path.starts_with("//api/") {
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        if let Ok(uri) = format!("{}{query}", &path[1..]).parse() {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// The REST routes' description, made of the routes themselves.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    described().split_for_parts().1
}

fn described() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(report::post))
        .routes(routes!(preload::get))
        .routes(routes!(api_token::ask))
        .routes(routes!(api_token::list, api_token::create))
        .routes(routes!(api_token::revoke))
        .routes(routes!(session::get))
        .routes(routes!(client_span::post))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::get))
        .merge(coiled::routes())
        .merge(export::routes(&exports()))
}

/// A handler that panicked has a defect; the connection does not have to suffer for it.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    Problem::panicked(panic.as_ref()).into_response()
}
