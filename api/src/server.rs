//! Composition root: from settings to a running server, and back down without losing what was begun.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use entity::Timestamp;
use futures::future::OptionFuture;
use tokio::{
    net::TcpListener,
    task::{JoinError, JoinHandle},
};

use crate::{
    app::account::{AccountError, Accounts},
    auth::{Authenticator, JwksError, JwtVerifier, TokenUses},
    bus::Redis,
    clock::Clock,
    config::{CommonConfig, ServeConfig},
    domain::token::ApiToken,
    draining::{Drain, drain},
    error::Chain,
    guard::PersistedDocuments,
    http::{self, AppState, Certificate, Service, TlsError},
    jobs::{Jobs, RunningJobs},
    key_ring::{KeyError, tell_missing},
    live::Live,
    metrics::Metrics,
    store::{MigrationError, Store, StoreError, SystemStore},
};

/// How long requests under way may take to end after the server was told to.
const DRAIN: Duration = Duration::from_secs(20);

/// Connections of operators at a time, on an address of their own.
const OPERATORS: usize = 32;

/// A server that runs.
pub struct Server {
    address: SocketAddr,
    bootstrap_token: Option<ApiToken>,
    store: Store,
    live: Live,
    jobs: Arc<Jobs>,
    running_jobs: Option<RunningJobs>,
    drain: Drain,
    token_uses: TokenUses,
    writing_uses: Option<JoinHandle<()>>,
    serving: JoinHandle<()>,
    operations: Option<Operations>,
}

/// What operators watch, on an address of its own.
struct Operations {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

/// Why a server did not start or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The schema could not be brought up to date.
    #[error(transparent)]
    Migration(#[from] MigrationError),
    /// The store could not be opened.
    #[error("cannot open the store")]
    Store(#[from] StoreError),
    /// Nothing says where the keys are.
    #[error("no keys are configured")]
    NoKeys,
    /// There are no keys to encrypt with.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The first account could not be made.
    #[error("cannot make the first account")]
    Bootstrap(#[from] AccountError),
    /// The documents that requests may name could not be read.
    #[error("cannot read the documents in {}", .0.display())]
    PersistedDocuments(PathBuf, #[source] std::io::Error),
    /// The keys of the issuer of JWTs could not be read.
    #[error(transparent)]
    Jwks(#[from] JwksError),
    /// The certificate cannot be shown.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address could not be listened on.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// What serves has a defect.
    #[error("serving failed")]
    Serve(#[source] JoinError),
}

impl Server {
    /// Brings the schema up to date, opens the store and listens.
    ///
    /// # Errors
    /// [`ServerError`] when one of these fails.
    pub async fn start(
        common: &CommonConfig,
        serve: &ServeConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ServerError> {
        Store::migrate(&common.database).await?;
        let system = SystemStore::connect(&common.database, common.connections).await?;
        let source = common.keys.as_ref().ok_or(ServerError::NoKeys)?;
        let store = system.clone().with_keys(source.open(&system).await?);
        let metrics = Arc::new(Metrics::new(Arc::clone(system.metrics())));
        let store = match &serve.redis {
            Some(url) => store.with_bus(Arc::new(Redis::start(url, metrics.bus.clone()))),
            None => store,
        };
        keep_account_of_keys(&store, clock.timestamp()).await?;
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
        // Last of all that can fail: its token is shown once, and would be lost with a server that does not start.
        let bootstrap_token = if serve.bootstrap {
            Accounts::new(store.system(), Arc::clone(&clock)).bootstrap().await?
        } else {
            None
        };
        let jobs = Arc::new(Jobs::new(store.clone(), Arc::clone(&clock), &serve.alerts, &metrics));
        // Like the jobs: tests count statements, and write when they say so.
        let writing_uses = serve.jobs.then(|| tokio::spawn(token_uses.clone().write_down_now_and_then()));
        let running_jobs = serve.jobs.then(|| Arc::clone(&jobs).start());
        let (drain, draining) = drain();
        metrics.http.allow_connections(serve.max_connections);
        let counted = Some(metrics.http.clone());
        let state =
            AppState::new(store.clone(), authenticator, persisted, clock, serve, draining.clone(), metrics);
        let live = state.live().clone();
        let (max_connections, patience) = (serve.max_connections, serve.patience);
        let operations = operations.map(|(listener, address)| {
            let router = http::operations(state.clone());
            let service = Service { max_connections: OPERATORS, patience, tls: None, metrics: None };
            let serving = tokio::spawn(http::serve(listener, router, service, draining.clone()));
            Operations { address, serving }
        });
        let service = Service { max_connections, patience, tls, metrics: counted };
        let serving = tokio::spawn(http::serve(listener, http::router(state), service, draining));
        Ok(Self {
            address,
            bootstrap_token,
            store,
            live,
            jobs,
            running_jobs,
            drain,
            token_uses,
            writing_uses,
            serving,
            operations,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where operators read metrics, if that is an address of its own.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.operations.as_ref().map(|operations| operations.address)
    }

    /// The token that was made because the store was empty.
    #[must_use]
    pub fn bootstrap_token(&self) -> Option<&ApiToken> {
        self.bootstrap_token.as_ref()
    }

    /// The store it serves from.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What it does by itself.
    #[must_use]
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// When tokens were last used.
    #[must_use]
    pub fn token_uses(&self) -> &TokenUses {
        &self.token_uses
    }

    /// Takes no new connections, lets requests and jobs under way end, and closes the store.
    ///
    /// # Errors
    /// [`ServerError::Serve`] when serving had ended by itself.
    pub async fn stop(self) -> Result<(), ServerError> {
        let Self {
            drain, mut serving, store, live, running_jobs, token_uses, writing_uses, operations, ..
        } = self;
        live.stop();
        drain.begin();
        let serving_ends = tokio::time::timeout(DRAIN, &mut serving);
        let jobs_end = OptionFuture::from(running_jobs.map(RunningJobs::stop));
        let (serving_ended, _) = tokio::join!(serving_ends, jobs_end);
        let ended = serving_ended.unwrap_or_else(|_| {
            tracing::warn!(seconds = DRAIN.as_secs(), "requests under way did not end in time");
            serving.abort();
            Ok(())
        });
        // Whoever is still reading can read again, from another server.
        let others = [writing_uses, operations.map(|operations| operations.serving)];
        others.iter().flatten().for_each(JoinHandle::abort);
        if let Err(error) = token_uses.write_down().await {
            tracing::warn!(error = %Chain(&error), "when tokens were last used was not written down");
        }
        store.bus().close().await;
        store.close().await;
        ended.map_err(ServerError::Serve)
    }
}

/// Listens on an address, and tells which one that is.
async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
    let failed = |error| ServerError::Listen(address, error);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Writes down which key encrypts from now on, and tells of keys that did and are not here. Those that rows need and the store
/// does not know are found by the job that reads all rows: here it would hold up the start.
async fn keep_account_of_keys(store: &Store, now: Timestamp) -> Result<(), StoreError> {
    let (system, keys) = (store.system(), store.keys().keys());
    for id in system.known_keys().await?.into_keys() {
        if !keys.ids().any(|key| key == id) {
            tell_missing(id);
        }
    }
    system.record_key(keys.primary(), now).await
}
