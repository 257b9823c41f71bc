//! Composition root: from settings to a running server, and back down without losing what was begun.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::{
    app::account::{AccountError, Accounts},
    clock::Clock,
    config::{CommonConfig, ServeConfig},
    domain::token::ApiToken,
    http::{AppState, router},
    store::{MigrationError, Store, StoreError},
};

/// How long requests under way may take to end after the server was told to.
const DRAIN: Duration = Duration::from_secs(20);

/// A server that runs.
pub struct Server {
    address: SocketAddr,
    bootstrap_token: Option<ApiToken>,
    store: Store,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
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
    /// The first account could not be made.
    #[error("cannot make the first account")]
    Bootstrap(#[from] AccountError),
    /// The address could not be listened on.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// The listener failed.
    #[error("serving failed")]
    Serve(#[source] std::io::Error),
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
        let store = Store::connect(&common.database, common.connections).await?;
        let bootstrap_token = if serve.bootstrap {
            Accounts::new(store.system(), Arc::clone(&clock)).bootstrap().await?
        } else {
            None
        };
        let listen_error = |error| ServerError::Listen(serve.listen, error);
        let listener = TcpListener::bind(serve.listen).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let router = router(AppState::new(store.clone(), clock, serve));
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let shutdown = async move {
                // A server that is dropped without being told to stop stops as well.
                let _ = stopped.await;
            };
            axum::serve(listener, router).with_graceful_shutdown(shutdown).await
        });
        Ok(Self { address, bootstrap_token, store, stop, serving })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
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

    /// Takes no new connections, lets requests under way end, and closes the store.
    ///
    /// # Errors
    /// [`ServerError::Serve`] when the listener had failed.
    pub async fn stop(self) -> Result<(), ServerError> {
        let Self { stop, mut serving, store, .. } = self;
        // The receiver is gone only if serving ended already.
        let _ = stop.send(());
        let ended = if let Ok(ended) = tokio::time::timeout(DRAIN, &mut serving).await {
            ended.unwrap_or_else(|panic| Err(std::io::Error::other(panic)))
        } else {
            tracing::warn!(seconds = DRAIN.as_secs(), "requests under way did not end in time");
            serving.abort();
            Ok(())
        };
        store.close().await;
        ended.map_err(ServerError::Serve)
    }
}
