//! The composition root: starts a server from settings, and shuts it down without losing work in
//! progress.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use entity::Timestamp;
use futures::future::OptionFuture;
use tokio::{
    net::TcpListener,
    task::{JoinError, JoinHandle},
};

use crate::{
    app::{
        SignInLinks,
        account::{AccountError, Accounts},
    },
    auth::{Authenticator, JwksError, JwtVerifier, TokenUses},
    bus::Redis,
    clock::Clock,
    config::{CommonConfig, ServeConfig},
    domain::{public_url::PublicUrl, sign_in_link::LinkSecret, token::ApiToken},
    error::Chain,
    file_descriptors,
    guard::PersistedDocuments,
    http::{self, AppState, Certificate, Dashboard, DashboardError, LoadedFiles, Service, TlsError},
    jobs::{Jobs, RunningJobs},
    key_ring::{KeyError, log_missing_key},
    live::SubscriptionHub,
    metrics::Metrics,
    shutdown_signal::{ShutdownSender, shutdown_channel},
    store::{MigrationError, Store, StoreError, SystemStore},
};

/// The time that requests in progress have to finish after the shutdown begins.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum number of connections to the separate metrics address.
const MAX_METRICS_CONNECTIONS: usize = 32;

/// A running server.
pub struct Server {
    address: SocketAddr,
    bootstrap_token: Option<ApiToken>,
    sign_in_link: Option<LinkSecret>,
    store: Store,
    live: SubscriptionHub,
    jobs: Arc<Jobs>,
    running_jobs: Option<RunningJobs>,
    drain: ShutdownSender,
    token_uses: TokenUses,
    token_use_task: Option<JoinHandle<()>>,
    serve_task: JoinHandle<()>,
    operations: Option<MetricsServer>,
}

/// The server of metrics and health checks on a separate address.
struct MetricsServer {
    address: SocketAddr,
    serve_task: JoinHandle<()>,
}

/// The reason why a server did not start or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The migrations failed.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// The database cannot be opened.
    #[error("cannot open the database")]
    Store(#[from] StoreError),
    /// No source of keys is configured.
    #[error("no keys are configured")]
    NoKeys,
    /// The keys cannot be read.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The first account cannot be created.
    #[error("cannot create the first account")]
    Bootstrap(#[from] AccountError),
    /// The persisted documents cannot be read.
    #[error("cannot read the documents in {}", .0.display())]
    PersistedDocuments(PathBuf, #[source] std::io::Error),
    /// The build of the dashboard cannot be served.
    #[error("cannot serve the dashboard")]
    Dashboard(#[from] DashboardError),
    /// The public keys of the JWT issuer cannot be read.
    #[error(transparent)]
    Jwks(#[from] JwksError),
    /// The certificate cannot be loaded.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be bound.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// The serving task panicked.
    #[error("serving failed")]
    Serve(#[source] JoinError),
}

impl Server {
    /// Applies migrations, opens the database and listens.
    ///
    /// # Errors
    /// Returns [`ServerError`] if one of these steps fails.
    pub async fn start(
        common: &CommonConfig,
        serve: &ServeConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ServerError> {
        let serve = &file_descriptors::limit_connections(common, serve);
        Store::migrate(&common.database).await?;
        let system = SystemStore::connect(&common.database, common.connections).await?;
        let system = system.with_limits(serve.quotas);
        let source = common.keys.as_ref().ok_or(ServerError::NoKeys)?;
        let store = system.clone().with_keys(source.open(&system).await?);
        let metrics = Arc::new(Metrics::new(Arc::clone(system.metrics()), system.shares().metrics()));
        let store = match &serve.redis {
            Some(url) => store.with_bus(Arc::new(Redis::start(url, metrics.bus.clone()))),
            None => store,
        };
        record_keys(&store, clock.timestamp()).await?;
        let base = serve.public_url.as_ref().map(PublicUrl::base).cloned().unwrap_or_default();
        let dashboard = Dashboard::open(&serve.dashboard, &base)?;
        let persisted = match &serve.persisted_documents {
            Some(directory) => PersistedDocuments::read(directory, serve.persisted_documents_only)
                .map_err(|error| ServerError::PersistedDocuments(directory.clone(), error))?,
            None => PersistedDocuments::default(),
        };
        let jwt = match &serve.jwt {
            Some(config) => Some(JwtVerifier::start(config).await?),
            None => None,
        };
        let authenticator = Authenticator::new(store.system(), Arc::clone(&clock)).with_jwt(jwt);
        let token_uses = authenticator.token_uses().clone();
        let tls = match &serve.tls {
            Some(files) => Some(Certificate::open(files.clone()).await?.acceptor()?),
            None => None,
        };
        let (listener, address) = listen(serve.listen).await?;
        let operations = match serve.metrics_listen {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        // The last step that can fail: the token is shown once, and would be lost if the server did not
        // start.
        let bootstrap_token = if serve.bootstrap {
            Accounts::new(store.system(), Arc::clone(&clock)).bootstrap().await?
        } else {
            None
        };
        let sign_in_link =
            create_sign_in_link(serve, address, bootstrap_token.is_some(), &store, &clock).await?;
        let jobs = Arc::new(Jobs::new(store.clone(), Arc::clone(&clock), &serve.alerts, &metrics));
        // Controlled by the same flag as the jobs: tests count statements, and write token uses
        // explicitly.
        let token_use_task = serve.jobs.then(|| tokio::spawn(token_uses.clone().flush_periodically()));
        let running_jobs = serve.jobs.then(|| Arc::clone(&jobs).start());
        let (drain, draining) = shutdown_channel();
        metrics.http.set_max_connections(serve.max_connections);
        let http_metrics = Some(metrics.http.clone());
        let files = LoadedFiles { persisted, dashboard };
        let state =
            AppState::new(store.clone(), authenticator, files, clock, serve, draining.clone(), metrics);
        let live = state.live().clone();
        let (max_connections, timeouts) = (serve.max_connections, serve.timeouts);
        let (shares, proxies) = (store.shares().clone(), Arc::new(serve.network.proxies.clone()));
        let operations = operations.map(|(listener, address)| {
            let router = http::operations(state.clone());
            let connections = shares.connections("operators", MAX_METRICS_CONNECTIONS);
            let proxies = Arc::clone(&proxies);
            let service = Service { connections, proxies, timeouts, tls: None, metrics: None };
            let serve_task = tokio::spawn(http::serve(listener, router, service, draining.clone()));
            MetricsServer { address, serve_task }
        });
        let connections = shares.connections("connections", max_connections);
        let service = Service { connections, proxies, timeouts, tls, metrics: http_metrics };
        let serve_task = tokio::spawn(http::serve(listener, http::router(state), service, draining));
        Ok(Self {
            address,
            bootstrap_token,
            sign_in_link,
            store,
            live,
            jobs,
            running_jobs,
            drain,
            token_uses,
            token_use_task,
            serve_task,
            operations,
        })
    }

    /// Returns the address the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the separate address of metrics. `None` if metrics are served on the main address.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.operations.as_ref().map(|operations| operations.address)
    }

    /// Returns the token created for an empty database.
    #[must_use]
    pub fn bootstrap_token(&self) -> Option<&ApiToken> {
        self.bootstrap_token.as_ref()
    }

    /// Returns the secret of the link created for the first owner.
    #[must_use]
    pub fn sign_in_link(&self) -> Option<&LinkSecret> {
        self.sign_in_link.as_ref()
    }

    /// Returns the server's store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the background jobs.
    #[must_use]
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Returns the recorder of token uses.
    #[must_use]
    pub fn token_uses(&self) -> &TokenUses {
        &self.token_uses
    }

    /// Accepts no new connections, waits for requests and jobs in progress, and closes the database.
    ///
    /// # Errors
    /// Returns [`ServerError::Serve`] if the serving task had already ended.
    pub async fn stop(self) -> Result<(), ServerError> {
        let Self {
            drain,
            mut serve_task,
            store,
            live,
            running_jobs,
            token_uses,
            token_use_task,
            operations,
            ..
        } = self;
        live.stop();
        drain.signal_shutdown();
        let serve_end = tokio::time::timeout(SHUTDOWN_TIMEOUT, &mut serve_task);
        let jobs_end = OptionFuture::from(running_jobs.map(RunningJobs::stop));
        let (serve_result, _) = tokio::join!(serve_end, jobs_end);
        let result = serve_result.unwrap_or_else(|_| {
            tracing::warn!(
                seconds = SHUTDOWN_TIMEOUT.as_secs(),
                "shutdown: some requests did not finish within the timeout"
            );
            serve_task.abort();
            Ok(())
        });
        // Clients of the metrics address can read again from another server.
        let other_tasks = [token_use_task, operations.map(|operations| operations.serve_task)];
        other_tasks.iter().flatten().for_each(JoinHandle::abort);
        if let Err(error) = token_uses.flush_uses().await {
            tracing::warn!(error = %Chain(&error), "failed to record the last use of tokens");
        }
        store.bus().close().await;
        store.close().await;
        result.map_err(ServerError::Serve)
    }
}

/// Invalidates the links of earlier starts. Creates one for the first owner if the settings ask for it, or
/// if the database was empty and only programs on this machine reach the server.
async fn create_sign_in_link(
    serve: &ServeConfig,
    address: SocketAddr,
    is_first_start: bool,
    store: &Store,
    clock: &Arc<dyn Clock>,
) -> Result<Option<LinkSecret>, StoreError> {
    let links = SignInLinks::new(store.system(), Arc::clone(clock));
    links.invalidate_all().await?;
    if serve.sign_in_link || (is_first_start && address.ip().is_loopback()) {
        return links.create_for_first_owner().await;
    }
    Ok(None)
}

/// Binds an address and returns the listener with the actual address.
async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
    let to_listen_error = |error| ServerError::Listen(address, error);
    let listener = TcpListener::bind(address).await.map_err(to_listen_error)?;
    let address = listener.local_addr().map_err(to_listen_error)?;
    Ok((listener, address))
}

/// Records the encrypting key, and logs recorded keys that are missing from the ring. Keys that rows
/// need but that are not recorded are found by the re-encryption job, which reads all rows; here that
/// would delay the start.
async fn record_keys(store: &Store, now: Timestamp) -> Result<(), StoreError> {
    let (system, keys) = (store.system(), store.keys().keys());
    for id in system.known_keys().await?.into_keys() {
        if !keys.ids().any(|key| key == id) {
            log_missing_key(id);
        }
    }
    system.record_key(keys.primary(), now).await
}
