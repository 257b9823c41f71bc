//! Fuzz targets that need a server. There is no network: requests go directly to the router, and the
//! database is a file.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode, Uri, header, request},
};
use chrono::TimeDelta;
use entity::{api_token::Scope, membership::Role, quota::UNLIMITED};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower::ServiceExt;

use super::{lines, schema_queries::queries};
use crate::{
    app::account::Accounts,
    auth::Authenticator,
    clock::{Clock, SystemClock},
    config::{AlertConfig, DashboardSource, NetworkConfig, ServeConfig, Timeouts},
    domain::{access::Grant, quota::Limits, session::SessionLifetimes},
    encryption::Keys,
    http::{AppState, LoadedFiles, router},
    metrics::Metrics,
    shutdown_signal::{ShutdownSender, shutdown_channel},
    store::{Store, StoreUrl},
};

/// A report with data in every section, so that queries find rows.
const REPORT: &[u8] = include_bytes!("../../../fuzz/corpus/report/everything.json");

/// The number of reports after which the database is reset, since it would grow without limit.
const MAX_REPORTS: u32 = 2_000;

/// The maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// A server that is reset periodically.
pub struct FuzzServer {
    runtime: Runtime,
    queries: BTreeMap<String, String>,
    seed: Seed,
    state: Mutex<ServerState>,
}

/// The initial state of each server: a database with an account and a report.
struct Seed {
    directory: TempDir,
    keys: Keys,
    authorization: String,
    /// The ID of the cluster that reported.
    cluster: i64,
}

/// A server.
struct ServerState {
    store: Store,
    router: Router,
    reports: u32,
    _drain: ShutdownSender,
}

/// A completely read response.
struct FullResponse {
    status: StatusCode,
    body: Vec<u8>,
}

/// Returns the runtime of all futures.
pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

impl FuzzServer {
    /// Starts a server with an account and one reporting cluster.
    ///
    /// # Panics
    /// Panics if the database cannot be created.
    #[must_use]
    pub fn start() -> Self {
        let runtime = runtime();
        let seed = runtime.block_on(Seed::create());
        let state = runtime.block_on(ServerState::start(&seed));
        Self { runtime, queries: queries(), seed, state: Mutex::new(state) }
    }

    pub(super) fn coiled(&self, bytes: &[u8]) {
        let [head, body] = lines(bytes);
        let head = String::from_utf8_lossy(head);
        let Some((method, target)) = head.split_once(' ') else { return };
        let (Ok(method), Ok(uri)) = (Method::from_bytes(method.as_bytes()), target.parse::<Uri>()) else {
            return;
        };
        // Other paths could revoke the token of these requests.
        let is_in_scope = match method {
            Method::GET | Method::HEAD => uri.path().starts_with("/api/"),
            _ => uri.path().starts_with("/api/v2/"),
        };
        if !is_in_scope {
            return;
        }
        let request = Request::builder().method(method).uri(uri);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        self.send_request(request, body.to_vec()).check();
    }

    pub(super) fn filter(&self, bytes: &[u8]) {
        let [name, variables] = lines(bytes);
        let name = String::from_utf8_lossy(name);
        let (Some(query), Ok(variables)) = (self.queries.get(&*name), serde_json::from_slice(variables))
        else {
            return;
        };
        self.query(query, variables, None);
    }

    pub(super) fn stored_report(&self, bytes: &[u8]) {
        let send = || {
            let request = Request::post("/api/v1/reports").header(header::CONTENT_TYPE, "application/json");
            let response = self.send_request(request, bytes.to_vec());
            response.check();
            (response.status == StatusCode::OK).then(|| response.json())
        };
        let Some(acknowledgement) = send() else { return };
        let repeated = send().expect("a stored report is accepted again");
        assert_eq!(repeated["cluster_id"], acknowledgement["cluster_id"], "{repeated}");
        // The stored report must be readable. Only one query per report, or nothing else would be done.
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let of_clusters: Vec<&String> = self
            .queries
            .iter()
            .filter(|(name, _)| name.starts_with("Cluster."))
            .map(|(_, text)| text)
            .collect();
        let query =
            of_clusters[usize::try_from(hasher.finish() % of_clusters.len() as u64).expect("an index")];
        self.query(query, Map::new(), acknowledgement["cluster_id"].as_i64());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reports += 1;
        if state.reports >= MAX_REPORTS {
            self.runtime.block_on(state.store.clone().close());
            *state = self.runtime.block_on(ServerState::start(&self.seed));
        }
    }

    /// Runs a query of the schema, by default on the cluster of the initial state.
    fn query(&self, query: &str, mut variables: Map<String, Value>, cluster: Option<i64>) {
        if query.contains("$parent") {
            let cluster = cluster.unwrap_or(self.seed.cluster);
            variables.entry("parent").or_insert_with(|| cluster.to_string().into());
        }
        let body = json!({ "query": query, "variables": variables });
        let request = Request::post("/graphql").header(header::CONTENT_TYPE, "application/json");
        let request = request.header(header::ACCEPT, "application/graphql-response+json");
        let response = self.send_request(request, body.to_string().into_bytes());
        assert!(matches!(response.status, StatusCode::OK | StatusCode::BAD_REQUEST), "{}", response.text());
        let response = response.json();
        for error in response["errors"].as_array().into_iter().flatten() {
            let code = error["extensions"]["code"].as_str().unwrap_or_default();
            let is_server_fault =
                ["", "INTERNAL_SERVER_ERROR", "UNAVAILABLE", "GRAPHQL_VALIDATION_FAILED"].contains(&code);
            assert!(!is_server_fault, "{error} for {query}");
        }
    }

    fn send_request(&self, request: request::Builder, body: Vec<u8>) -> FullResponse {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.runtime
            .block_on(state.send(request.header(header::AUTHORIZATION, &self.seed.authorization), body))
    }
}

impl Seed {
    async fn create() -> Self {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("seed.db");
        let (url, keys) = (url(&path), Keys::generate());
        Store::migrate(&url).await.expect("a schema");
        let store = Store::connect(&url, 1, keys.clone()).await.expect("a store");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        store.system().record_key(keys.primary(), clock.timestamp()).await.expect("a key");
        let accounts = Accounts::new(store.system(), clock);
        let name = "fuzz".parse().expect("a short name");
        accounts.create_account(&name).await.expect("an account");
        let grant = Grant { role: Role::Owner, ends_at: None };
        accounts.create_user(&name, &name, grant).await.expect("a user");
        let scopes = [Scope::Ingest, Scope::Read, Scope::Admin];
        let token = accounts.create_token(&name, &name, &scopes, String::new(), None).await.expect("a token");
        let authorization = format!("Bearer {}", token.reveal());
        let state = ServerState::of(store.clone());
        let request = Request::post("/api/v1/reports").header(header::CONTENT_TYPE, "application/json");
        let response =
            state.send(request.header(header::AUTHORIZATION, &authorization), REPORT.to_vec()).await;
        assert_eq!(response.status, StatusCode::OK, "{}", response.text());
        let cluster = response.json()["cluster_id"].as_i64().expect("a number");
        // Closing writes the WAL back into the database file.
        store.close().await;
        Self { directory, keys, authorization, cluster }
    }
}

impl ServerState {
    async fn start(seed: &Seed) -> Self {
        let path = seed.directory.path().join("galvo.db");
        for ending in ["-wal", "-shm"] {
            let wal_file = path.with_extension(format!("db{ending}"));
            if wal_file.exists() {
                fs::remove_file(wal_file).expect("a removable file");
            }
        }
        fs::copy(seed.directory.path().join("seed.db"), &path).expect("a copy");
        Self::of(Store::connect(&url(&path), 1, seed.keys.clone()).await.expect("a store"))
    }

    fn of(store: Store) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let authenticator = Authenticator::new(store.system(), Arc::clone(&clock));
        let (drain, draining) = shutdown_channel();
        let files = LoadedFiles::default();
        let metrics = Arc::new(Metrics::new(Arc::clone(store.system().metrics()), store.shares().metrics()));
        let state = AppState::new(store.clone(), authenticator, files, clock, &settings(), draining, metrics);
        Self { store, router: router(state), reports: 0, _drain: drain }
    }

    async fn send(&self, request: request::Builder, body: Vec<u8>) -> FullResponse {
        let request = request.body(Body::from(body)).expect("a request");
        let Ok(response) = self.router.clone().oneshot(request).await;
        let status = response.status();
        let body = to_bytes(response.into_body(), MAX_RESPONSE_BYTES).await.expect("an answer that ends");
        FullResponse { status, body: body.into() }
    }
}

fn url(path: &Path) -> StoreUrl {
    format!("sqlite://{}?mode=rwc", path.display()).parse().expect("an address")
}

impl FullResponse {
    fn text(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Checks that the response is not a server error, and that an error has a code and a message.
    fn check(&self) {
        assert!(!self.status.is_server_error(), "{}", self.text());
        if self.status.is_client_error() && !self.body.is_empty() {
            let body = self.json();
            let text_length = |name: &str| body[name].as_str().map(|text| text.chars().count());
            assert!(text_length("code").is_some_and(|length| length < 40), "{}", self.text());
            assert!(text_length("message").is_some_and(|length| length < 700), "{}", self.text());
        }
    }
}

/// Returns the usual settings, with limits high enough never to apply.
fn settings() -> ServeConfig {
    ServeConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        metrics_listen: None,
        min_report_interval: Duration::from_secs(1),
        reports_per_second: u32::MAX,
        max_connections: 1,
        max_query_cost: 500_000,
        persisted_documents: None,
        persisted_documents_only: false,
        query_cost_per_minute: u32::MAX,
        query_timeout: Duration::from_secs(30),
        public_url: None,
        reports_url: None,
        redis: None,
        session_lifetimes: SessionLifetimes { absolute: TimeDelta::days(30), idle: TimeDelta::days(7) },
        timeouts: Timeouts::default(),
        jwt: None,
        oidc: None,
        alerts: AlertConfig::default(),
        network: NetworkConfig::default(),
        quotas: Limits {
            stored_bytes: UNLIMITED,
            daily_bytes: UNLIMITED,
            daily_clusters: UNLIMITED,
            cluster_threads: UNLIMITED,
            retention_days: UNLIMITED,
        },
        tls: None,
        traces: None,
        bootstrap: false,
        sign_in_link: false,
        dashboard: DashboardSource::Absent,
        jobs: false,
    }
}
