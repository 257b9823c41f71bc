//! Connections: their number, and the timeouts of their clients.
//!
//! The server speaks only HTTP/1.1. Each connection then has one request at a time, so the number of
//! connections bounds the number of concurrent requests. A proxy in front may use other protocols with
//! its clients. The reader of a body sets its timeout. An upgraded connection keeps its slot until it
//! ends.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::{ConnectInfo, Request},
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use hyper::{
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::{HttpService, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::accept::Acceptor;
use crate::{
    config::Timeouts,
    domain::client_ip::{TrustedProxies, rate_limit_address},
    metrics::{GaugeGuard, HttpMetrics},
    shares::{BusyGuard, Connection, Connections},
    shutdown_signal::ShutdownSignal,
};

/// The read buffer of a connection, in bytes. The head of a request must fit. URLs are limited to 64
/// KiB.
const READ_BUFFER_BYTES: usize = 128 << 10;

/// The number of bytes that are read and discarded of a request that was answered before it was read.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// The settings of a listener.
pub(crate) struct Service {
    /// The slots for connections.
    pub(crate) connections: Arc<Connections>,
    /// The proxies. Their addresses stand for many clients, so they are not limited.
    pub(crate) proxies: Arc<TrustedProxies>,
    /// The timeouts of clients.
    pub(crate) timeouts: Timeouts,
    /// The TLS acceptor. None for plain connections.
    pub(crate) tls: Option<TlsAcceptor>,
    /// The connection metrics. None if the connections are not counted.
    pub(crate) metrics: Option<HttpMetrics>,
}

/// Serves connections until shutdown. Then accepts no new ones, and returns when the current requests
/// have been answered.
///
/// Connections beyond the available slots wait in the system's queue.
pub(crate) async fn serve(listener: TcpListener, router: Router, service: Service, draining: ShutdownSignal) {
    let Service { connections, proxies, timeouts, tls, metrics } = service;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(timeouts.idle_timeout).max_buf_size(READ_BUFFER_BYTES);
    let mut acceptor = Acceptor::new(listener);
    let mut shutdown = pin!(draining.clone().wait_for_shutdown());
    loop {
        let next = async {
            // Further connections stay in the system's queue until a slot is free.
            connections.wait_for_slot().await;
            let (stream, peer) = acceptor.accept().await;
            let is_limited = !proxies.trust(peer.ip());
            let connection = connections.admit(rate_limit_address(peer.ip()), is_limited).await;
            (connection, stream, peer)
        };
        let (connection, stream, peer) = tokio::select! {
            () = &mut shutdown => break,
            next = next => next,
        };
        // Without this option, responses arrive later, so a failure is harmless.
        let _ = stream.set_nodelay(true);
        let (phases, draining) = (RequestPhases::default(), draining.clone());
        let slot = ConnectionSlot {
            _connection: connection.clone(),
            _connection_count: metrics.as_ref().map(HttpMetrics::track_connection),
        };
        let service = {
            let (router, phases, connection) = (router.clone(), phases.clone(), connection.clone());
            service_fn(move |request| {
                handle_request(router.clone(), request, peer, phases.start(), connection.mark_busy())
            })
        };
        let http = http.clone();
        match tls.clone() {
            None => {
                let stream = TimeoutStream::new(stream, phases, timeouts, slot);
                tokio::spawn(serve_connection(http, stream, service, draining, connection));
            }
            Some(tls) => {
                tokio::spawn(async move {
                    let handshake = tokio::select! {
                        handshake = timeout(timeouts.head_timeout, tls.accept(stream)) => handshake,
                        () = connection.wait_for_eviction() => return,
                    };
                    // A failed handshake is also the client's fault.
                    if let Ok(Ok(stream)) = handshake {
                        let stream = TimeoutStream::new(stream, phases, timeouts, slot);
                        serve_connection(http, stream, service, draining, connection).await;
                    }
                });
            }
        }
    }
    drop(acceptor);
    // Each connection holds its slot until it ends.
    connections.all_ended().await;
}

/// Serves a connection until it ends, or after shutdown until its current request has been answered.
async fn serve_connection<S, V>(
    http: http1::Builder,
    stream: TimeoutStream<S>,
    service: V,
    draining: ShutdownSignal,
    slot: Connection,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    V: HttpService<Incoming, ResBody = Body, Error = Infallible>,
{
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let result = tokio::select! {
        result = &mut connection => result,
        () = slot.wait_for_eviction() => return,
        () = draining.wait_for_shutdown() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // A connection that ends early is the client's fault.
    if let Err(error) = result {
        tracing::trace!(%error, "connection closed early");
    }
}

/// Answers a request. If its body was not read to the end, the connection closes after the response,
/// which has a header that says so. Otherwise, the client would send its next request into a closed
/// connection.
async fn handle_request(
    router: Router,
    request: Request<Incoming>,
    peer: SocketAddr,
    phase: RequestPhase,
    busy_guard: BusyGuard,
) -> Result<Response, Infallible> {
    let is_fully_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let mut request =
        request.map(|body| Body::new(WatchedBody { body, is_fully_read: Arc::clone(&is_fully_read) }));
    request.extensions_mut().insert(ConnectInfo(peer));
    // The slot of the request holds this value as long as any work of the request runs.
    request.extensions_mut().insert(Arc::new(busy_guard));
    let mut response = router.oneshot(request).await?;
    if !is_fully_read.load(Ordering::Relaxed) {
        phase.0.has_unread_body.store(true, Ordering::Relaxed);
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    phase.end(response.status());
    Ok(response)
}

/// A body that records whether it was read to the end.
struct WatchedBody {
    body: Incoming,
    is_fully_read: Arc<AtomicBool>,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || this.body.is_end_stream() {
            this.is_fully_read.store(true, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The phases of a connection, in which either the client or the server is expected to send.
#[derive(Clone, Default)]
struct RequestPhases {
    /// Odd while a request is answered, and even while the client is expected to send the next one.
    /// After an upgrade, no further request follows, and the number stays odd.
    count: Arc<AtomicUsize>,
    /// True if a request was answered before it was read to its end. No further request follows.
    has_unread_body: Arc<AtomicBool>,
}

impl RequestPhases {
    /// Starts the phase of a response, which ends when the returned value is dropped.
    fn start(&self) -> RequestPhase {
        self.count.fetch_add(1, Ordering::Relaxed);
        RequestPhase(self.clone())
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

struct RequestPhase(RequestPhases);

impl RequestPhase {
    /// Records the status of the response.
    fn end(self, status: StatusCode) {
        if status == StatusCode::SWITCHING_PROTOCOLS {
            self.0.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for RequestPhase {
    fn drop(&mut self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection with a timeout for the head of a request and for taking a response.
///
/// hyper has a single timeout for waiting for a request and for reading its head. But proxies keep
/// connections open for a minute and send requests that cannot be retried, so idle connections have to
/// stay open for longer than a head may take.
struct TimeoutStream<S> {
    stream: S,
    phases: RequestPhases,
    /// The phase for which `head_timeout` runs.
    phase: usize,
    timeouts: Timeouts,
    /// The timeout of a head, which starts with its first byte. The first one starts with the
    /// connection.
    head_timeout: Option<Pin<Box<Sleep>>>,
    /// The timeout while the client takes nothing of a response.
    response_timeout: Option<Pin<Box<Sleep>>>,
    /// The timeout while the rest of a request is read and discarded.
    discard_timeout: Option<Pin<Box<Sleep>>>,
    /// The number of discarded bytes.
    discarded_bytes: usize,
    /// The connection's slot.
    _slot: ConnectionSlot,
}

/// A slot among the connections.
struct ConnectionSlot {
    _connection: Connection,
    _connection_count: Option<GaugeGuard>,
}

impl<S> TimeoutStream<S> {
    fn new(stream: S, phases: RequestPhases, timeouts: Timeouts, slot: ConnectionSlot) -> Self {
        let head_timeout = Some(Box::pin(sleep(timeouts.head_timeout)));
        Self {
            stream,
            phase: phases.count(),
            phases,
            timeouts,
            head_timeout,
            response_timeout: None,
            discard_timeout: None,
            discarded_bytes: 0,
            _slot: slot,
        }
    }

    /// Returns the result of a write, or an error if the client's timeout has passed.
    fn check_write_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.response_timeout = None;
            return result;
        }
        let timeout =
            self.response_timeout.get_or_insert_with(|| Box::pin(sleep(self.timeouts.response_timeout)));
        timeout.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> TimeoutStream<S> {
    /// Reads and discards the rest of a request that was already answered. If the connection were closed
    /// with unread data, the system would reset it, and the client would lose the response.
    fn poll_unread(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.phases.has_unread_body.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        let mut bytes = [0; 8 << 10];
        while self.discarded_bytes < MAX_DISCARDED_BYTES {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.discarded_bytes += buffer.filled().len();
                }
                Poll::Ready(_) => break,
                Poll::Pending => {
                    let timeout = self
                        .discard_timeout
                        .get_or_insert_with(|| Box::pin(sleep(self.timeouts.head_timeout)));
                    return timeout.as_mut().poll(context);
                }
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimeoutStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let phase = this.phases.count();
        if phase != this.phase {
            this.phase = phase;
            this.head_timeout = None;
        }
        if phase % 2 == 1 {
            // The data belongs to a body, or nothing was read yet.
            return read;
        }
        if this.head_timeout.is_none() && buffer.filled().len() > before {
            this.head_timeout = Some(Box::pin(sleep(this.timeouts.head_timeout)));
        }
        let is_timed_out =
            this.head_timeout.as_mut().is_some_and(|head| head.as_mut().poll(context).is_ready());
        if is_timed_out { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { read }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimeoutStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.check_write_timeout(context, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.check_write_timeout(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        this.poll_unread(context).map(Ok)
    }
}
