//! Connections: how many there are at a time, and how long a client may take over what is expected of it.
//!
//! HTTP/1.1 only. Each connection is then one request at a time, so that their number bounds what is under way; a proxy
//! in front may speak what it likes to its clients. How long a body may take is for whoever reads it. A connection that was
//! upgraded is still one, and keeps its place until it ends.

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
    serve::Listener,
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
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::{
    config::Patience,
    draining::Draining,
    metrics::{Counted, HttpMetrics},
};

/// Bytes of a connection that are read ahead; a request's head must fit. Addresses end at 64 KiB.
const BUFFER: usize = 128 << 10;

/// Bytes that are still taken of a request that was answered before it was read.
const UNREAD: usize = 64 << 20;

/// How connections are taken.
pub(crate) struct Service {
    /// At a time.
    pub(crate) max_connections: usize,
    /// How long their clients may take.
    pub(crate) patience: Patience,
    /// What they begin with, if they are encrypted.
    pub(crate) tls: Option<TlsAcceptor>,
    /// By what they are counted, if they are.
    pub(crate) metrics: Option<HttpMetrics>,
}

/// Serves until the server stops, then takes no new connections, and returns when the requests under way have been answered.
///
/// More connections than `max_connections` wait in the system's queue.
pub(crate) async fn serve(mut listener: TcpListener, router: Router, service: Service, draining: Draining) {
    let Service { max_connections, patience, tls, metrics } = service;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience.idle).max_buf_size(BUFFER);
    let places = Arc::new(Semaphore::new(max_connections));
    let mut stopped = pin!(draining.clone().begun());
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.expect("nobody closes it");
            // Errors are a client's that has gone again, or the system's, which are waited out.
            let (stream, peer) = Listener::accept(&mut listener).await;
            (place, stream, peer)
        };
        let (place, stream, peer) = tokio::select! {
            () = &mut stopped => break,
            next = next => next,
        };
        // Where it cannot be set answers come later, and come.
        let _ = stream.set_nodelay(true);
        let (turns, draining) = (Turns::default(), draining.clone());
        let place = Place { _permit: place, _counted: metrics.as_ref().map(HttpMetrics::connection) };
        let service = {
            let (router, turns) = (router.clone(), turns.clone());
            service_fn(move |request| answer(router.clone(), request, peer, turns.begin()))
        };
        let http = http.clone();
        match tls.clone() {
            None => {
                let stream = PatientStream::new(stream, turns, patience, place);
                tokio::spawn(converse(http, stream, service, draining));
            }
            Some(tls) => {
                tokio::spawn(async move {
                    // What does not become a connection is the client's doing, too.
                    if let Ok(Ok(stream)) = timeout(patience.head, tls.accept(stream)).await {
                        let stream = PatientStream::new(stream, turns, patience, place);
                        converse(http, stream, service, draining).await;
                    }
                });
            }
        }
    }
    drop(listener);
    // Each has its place until it ends.
    let all = u32::try_from(max_connections).unwrap_or(u32::MAX);
    let _ = places.acquire_many(all).await;
}

/// Answers what comes over a connection until it ends, or until the server stops and what is under way has been answered.
async fn converse<S, V>(http: http1::Builder, stream: PatientStream<S>, service: V, draining: Draining)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    V: HttpService<Incoming, ResBody = Body, Error = Infallible>,
{
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = draining.begun() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // What ends a connection early is the client's doing.
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection ended early");
    }
}

/// Answers a request. Where its body was not read to the end, the connection ends with the answer, which says so: the client
/// would otherwise send its next request into a connection that is closed.
async fn answer(
    router: Router,
    request: Request<Incoming>,
    peer: SocketAddr,
    turn: Turn,
) -> Result<Response, Infallible> {
    let read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let mut request = request.map(|body| Body::new(WatchedBody { body, read: Arc::clone(&read) }));
    request.extensions_mut().insert(ConnectInfo(peer));
    let mut response = router.oneshot(request).await?;
    if !read.load(Ordering::Relaxed) {
        turn.0.unread.store(true, Ordering::Relaxed);
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    turn.end(response.status());
    Ok(response)
}

/// A body that tells whether it was read to the end.
struct WatchedBody {
    body: Incoming,
    read: Arc<AtomicBool>,
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
            this.read.store(true, Ordering::Relaxed);
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

/// Whose turn it is on a connection.
#[derive(Clone, Default)]
struct Turns {
    /// Odd while a request is answered, even while the client is to send the next one. After an upgrade there is none, and
    /// it stays odd.
    count: Arc<AtomicUsize>,
    /// Whether a request was answered that was not read to its end, after which there are no others.
    unread: Arc<AtomicBool>,
}

impl Turns {
    /// The server's turn, until what is returned is dropped.
    fn begin(&self) -> Turn {
        self.count.fetch_add(1, Ordering::Relaxed);
        Turn(self.clone())
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

struct Turn(Turns);

impl Turn {
    /// The answer is there, with this status.
    fn end(self, status: StatusCode) {
        if status == StatusCode::SWITCHING_PROTOCOLS {
            self.0.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection that fails when the client takes too long over the head of a request, or over taking an answer.
///
/// hyper has one time for waiting for a request and for reading its head. But proxies keep connections for a minute
/// and send what cannot be sent twice, so those that are idle have to stay open for longer than a head may take.
struct PatientStream<S> {
    stream: S,
    turns: Turns,
    /// The turn for which `head` runs.
    turn: usize,
    patience: Patience,
    /// Runs from the first byte of a head on; for the first one, from the beginning.
    head: Option<Pin<Box<Sleep>>>,
    /// Runs while the client takes nothing of an answer.
    answer: Option<Pin<Box<Sleep>>>,
    /// Runs while the client may go on to send what nobody reads.
    unread: Option<Pin<Box<Sleep>>>,
    /// How much of that there was.
    unread_bytes: usize,
    /// Its place among the connections there may be.
    _place: Place,
}

/// A place among the connections there may be.
struct Place {
    _permit: OwnedSemaphorePermit,
    _counted: Option<Counted>,
}

impl<S> PatientStream<S> {
    fn new(stream: S, turns: Turns, patience: Patience, place: Place) -> Self {
        let head = Some(Box::pin(sleep(patience.head)));
        Self {
            stream,
            turn: turns.count(),
            turns,
            patience,
            head,
            answer: None,
            unread: None,
            unread_bytes: 0,
            _place: place,
        }
    }

    /// What became of an attempt to write, or the end of patience.
    fn written<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.answer = None;
            return written;
        }
        let answer = self.answer.get_or_insert_with(|| Box::pin(sleep(self.patience.answer)));
        answer.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> PatientStream<S> {
    /// Reads what still comes of a request that was answered before. Were the connection closed meanwhile, the system would
    /// tell the client so and forget the answer.
    fn poll_unread(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.turns.unread.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        let mut bytes = [0; 8 << 10];
        while self.unread_bytes < UNREAD {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.unread_bytes += buffer.filled().len();
                }
                Poll::Ready(_) => break,
                Poll::Pending => {
                    let unread = self.unread.get_or_insert_with(|| Box::pin(sleep(self.patience.head)));
                    return unread.as_mut().poll(context);
                }
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PatientStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let turn = this.turns.count();
        if turn != this.turn {
            this.turn = turn;
            this.head = None;
        }
        if turn % 2 == 1 {
            // A body, or nothing yet.
            return read;
        }
        if this.head.is_none() && buffer.filled().len() > before {
            this.head = Some(Box::pin(sleep(this.patience.head)));
        }
        let out_of_time = this.head.as_mut().is_some_and(|head| head.as_mut().poll(context).is_ready());
        if out_of_time { Poll::Ready(Err(io::ErrorKind::TimedOut.into())) } else { read }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PatientStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.written(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.written(context, written)
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
