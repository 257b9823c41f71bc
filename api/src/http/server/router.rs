//! All routes, and the middleware that they share.

use std::sync::{Arc, LazyLock, atomic::AtomicBool};

use axum::{
    Router,
    body::Bytes,
    extract::Request,
    http::HeaderMap,
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
    openapi::{
        Server,
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::state::AppState;
use crate::{
    auth::CALLBACK,
    domain::base_path::BasePath,
    export::exports,
    http::{
        coiled,
        extract::{
            origin::{self, ProxySettings, request_id},
            problem::Problem,
        },
        graphql,
        middleware::{
            content_coding::ContentCoding,
            csrf, host, request_slot,
            response_compression::{compress, gzip_file},
            security_headers,
        },
        pages::{
            activate_token, api_token, cluster_page, dashboard, invitation, landing, oidc, page, report_page,
            session, sign_in, sign_in_link,
            static_file::{Caching, StaticFile},
        },
        rest::{client_span, export, health, metrics, preload, profile_export, report, scheduler_token},
    },
    telemetry,
};

/// The description of the REST routes, without the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Galvo",
        description = "The REST routes of the Galvo analytics server for Dask. The GraphQL API is at /graphql.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    modifiers(&Token),
    tags(
        (name = "ingest", description = "Reports from schedulers."),
        (name = "export", description = "Lists as files."),
        (name = "sign-in", description = "Requests of the server's own pages."),
        (name = "plugin", description = "The plugin that runs on schedulers."),
        (name = "coiled", description = "The routes that the published `coiled` client calls."),
        (name = "operations", description = "Monitoring for operators."),
    )
)]
struct Description;

struct Token;

impl utoipa::Modify for Token {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("<identifier>-<secret>")
            .description(Some("An API token. `Token` and `ApiToken` are accepted instead of `Bearer`."))
            .build();
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
        let cookie = ApiKeyValue::with_description(
            "galvo_session",
            "The session cookie that /sign-in sets, named __Host-galvo with TLS, or __Secure-galvo below a \
             path. It is accepted wherever a token is. Requests other than GET need the header Galvo-CSRF \
             with the token from /api/v1/session.",
        );
        components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(cookie)));
    }
}

/// Returns all routes with their handlers.
pub fn router(state: AppState) -> Router {
    // HSTS covers the whole host. On a shared host, other applications may not use TLS, so the host's
    // owner decides.
    let sends_hsts = state.site.cookies.secure && state.site.base.is_empty();
    let origins = proxy_settings(&state, sends_hsts);
    let (cors, metrics_state, slot_state) =
        (security_headers::cors(&state.site.cors_origins), state.clone(), state.clone());
    let (documented, mut openapi) = documented_routes().split_for_parts();
    openapi.servers = state.site.public_url.as_ref().map(|public| vec![Server::new(public.to_string())]);
    // Anybody may request the description, so it is serialized and compressed only once.
    let description = Arc::new(LazyLock::new(move || json_file(&openapi)));
    let description =
        get(async move |headers: HeaderMap| description.respond(&headers, Caching::Revalidated));
    let (base, pages_state, host_state) = (state.site.base.clone(), state.clone(), state.clone());
    let api = documented
        .route("/graphql", get(graphql::get).post(graphql::post).layer(middleware::from_fn(compress)))
        .route("/api/v1/openapi.json", description)
        .layer(axum::middleware::from_fn_with_state(state.clone(), csrf::check_csrf));
    // Forms carry the CSRF token in a field, and their handlers check it there.
    let pages = Router::new()
        .route("/", get(landing::get))
        .route("/sign-in", get(sign_in::get).post(sign_in::post))
        .route("/sign-in/link", get(sign_in_link::get).post(sign_in_link::post))
        .route("/sign-in/invitation", get(invitation::get).post(invitation::post))
        .route("/sign-in/oidc", get(oidc::get))
        .route(CALLBACK, get(oidc::callback))
        .route("/sign-out", axum::routing::post(sign_in::sign_out))
        .route("/password", get(sign_in::password).post(sign_in::change_password))
        .route("/clusters/{id}", get(cluster_page::get))
        .route("/reports/{id}", get(report_page::get))
        .route("/reports/{id}/content", get(report_page::content))
        .route("/activate-token", get(activate_token::get).post(activate_token::post))
        .layer(middleware::from_fn_with_state(state.clone(), host::check_page_host))
        .layer(middleware::from_fn_with_state(pages_state, page::render_page));
    let routes = api
        .merge(pages)
        .route("/assets/{*name}", get(dashboard::asset))
        .fallback(dashboard::respond)
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(state)
        .layer(
            ServiceBuilder::new()
                .layer(middleware::from_fn_with_state(origins, origin::set_origin))
                .layer(
                    TraceLayer::new_for_http()
                        // The query string contains queries and their variables, so it is not logged.
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
                            telemetry::join_trace(&span, request);
                            span
                        })
                        .on_response(|response: &Response, latency, span: &Span| {
                            telemetry::record_status(span, response);
                            DefaultOnResponse::new().on_response(response, latency, span);
                        })
                        // The layer that creates an error response also logs its cause.
                        .on_failure(()),
                )
                .layer(middleware::from_fn_with_state(metrics_state, metrics::count))
                .layer(middleware::from_fn_with_state(host_state, host::restrict_report_host))
                .layer(option_layer(cors))
                .layer(CatchPanicLayer::custom(panicked))
                .layer(middleware::from_fn_with_state(slot_state, request_slot::reserve_slot)),
        );
    // The base path is stripped before routing: layers of a router run only after its routes are
    // matched.
    let map_to_own_path = move |request| strip_base_path(&base, request);
    Router::new().fallback_service(ServiceBuilder::new().map_request(map_to_own_path).service(routes))
}

fn proxy_settings(state: &AppState, sends_hsts: bool) -> Arc<ProxySettings> {
    let (proxies, metrics) = (Arc::clone(&state.site.proxies), state.metrics.http.clone());
    Arc::new(ProxySettings { proxies, sends_hsts, metrics, has_warned: AtomicBool::new(false) })
}

/// Returns the routes for operators, for an address of their own that is closed to the server's users.
pub fn operations(state: AppState) -> Router {
    let origins = proxy_settings(&state, false);
    Router::new()
        .route("/metrics", get(metrics::get_unrestricted))
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(state)
        .layer(
            ServiceBuilder::new()
                .layer(middleware::from_fn_with_state(origins, origin::set_origin))
                .layer(CatchPanicLayer::custom(panicked)),
        )
}

/// Maps a request to the server's own path. Proxies strip the base path or keep it, and a server setting
/// with a trailing slash makes the `coiled` client send paths that begin with two slashes.
fn strip_base_path(base: &BasePath, mut request: Request) -> Request {
    let path = request.uri().path();
    let own_path = base.strip(path).unwrap_or(path);
    let own_path = if own_path.starts_with("//api/") { &own_path[1..] } else { own_path };
    if own_path.len() < path.len() {
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        let slash = if own_path.is_empty() { "/" } else { "" };
        if let Ok(uri) = format!("{slash}{own_path}{query}").parse() {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// Returns the response to an unknown path, with a hint at the likely intention.
pub(crate) fn respond_not_found(path: &str) -> Problem {
    if let Some(export) = path.strip_prefix("/api/v1/export/") {
        return Problem::missing(format!(
            "there is no such export: {}",
            export::related_export_names(export)
        ));
    }
    if path.starts_with("/graphql/") {
        let message = "there is nothing at this address: the server's URL does not end in /graphql";
        return Problem::missing(message);
    }
    Problem::not_found()
}

/// Returns a file with the JSON form of the description.
fn json_file(openapi: &utoipa::openapi::OpenApi) -> StaticFile {
    let plain = Bytes::from(serde_json::to_vec(openapi).expect("its keys are texts"));
    let compressed = gzip_file(&plain);
    StaticFile::new("openapi.json", plain, vec![(ContentCoding::Gzip, compressed)])
}

/// Returns the description of the REST routes, generated from the routes.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    documented_routes().split_for_parts().1
}

fn documented_routes() -> OpenApiRouter<AppState> {
    let compressed = OpenApiRouter::new()
        .routes(routes!(preload::get))
        .routes(routes!(metrics::get))
        .routes(routes!(profile_export::get))
        .merge(coiled::routes())
        .layer(middleware::from_fn(compress));
    // The other responses contain secrets, are short, or are streams.
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(report::post))
        .routes(routes!(scheduler_token::post))
        .routes(routes!(api_token::ask))
        .routes(routes!(api_token::list, api_token::create))
        .routes(routes!(api_token::revoke))
        .routes(routes!(session::get))
        .routes(routes!(client_span::post))
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .merge(compressed)
        .merge(export::routes(&exports()))
}

/// Responds after a panic in a handler, so that the connection stays open.
#[expect(clippy::needless_pass_by_value, reason = "the layer passes the panic by value")]
fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    Problem::panicked(panic.as_ref()).into_response()
}
