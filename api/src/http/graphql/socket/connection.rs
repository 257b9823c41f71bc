//! The lifecycle of one socket, from the upgrade to its close.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_graphql::ServerError;
use entity::api_token::Scope;
use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Bytes, Message, Utf8Bytes,
        error::ProtocolError,
        protocol::{Role, WebSocketConfig},
    },
};

use super::{
    close::Close,
    message::{ClientMessage, DecodeError, Subprotocol},
    operations::{LimitError, MAX_BYTES, MAX_OPERATIONS, Operation, Operations},
};
use crate::{
    domain::audit::Origin,
    http::{
        extract::{caller::Caller, credentials::Credentials},
        graphql::operation::{Outcome, Parameters, Refusal, Rendered, Transport, execute},
        middleware::request_slot::OccupiedSlot,
        server::state::AppState,
    },
    live::SubscriptionItem,
};

/// The size limit of a message, in bytes. Queries with moderately long variables fit. Larger ones use
/// HTTP.
const MAX_MESSAGE: usize = 256 << 10;

/// The size of the read buffer, in bytes. The library's default is 128 KiB for each socket from its
/// start.
const READ_BUFFER: usize = 1 << 10;

/// The size of the write buffer, in bytes. It combines small messages, because each write has a fixed
/// cost in the system.
const WRITE_BUFFER: usize = 4 << 10;

/// The number of queued messages of all operations of a socket.
const QUEUE: usize = 8;

/// The number of consecutive heartbeats that may stay unanswered.
const MAX_MISSED_HEARTBEATS: u32 = 3;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The client of a socket.
pub(super) struct Client {
    pub(super) state: AppState,
    /// The origin of the upgrade request.
    pub(super) origin: Origin,
    /// The credentials of the upgrade request.
    pub(super) credentials: Credentials,
    /// The subprotocol. None if the client offered no supported one.
    pub(super) subprotocol: Option<Subprotocol>,
}

impl Client {
    /// Serves the client until the socket closes.
    pub(super) async fn serve(self, upgrade: OnUpgrade) {
        // The upgrade fails if the client disconnected before the response.
        let Ok(upgraded) = upgrade.await else { return };
        let _socket_count = self.state.live.metrics().track_socket();
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(WRITE_BUFFER)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let io = TokioIo::new(upgraded);
        let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let (timeouts, draining) = (self.state.timeouts, self.state.draining.clone());
        let conversation = async {
            match self.subprotocol {
                None => Close::Subprotocol,
                Some(subprotocol) => self.run_protocol(&mut socket, subprotocol).await,
            }
        };
        let close = tokio::select! {
            close = conversation => close,
            () = draining.wait_for_shutdown() => Close::GoingAway,
        };
        // The timeout covers clients that take no more data.
        let _ =
            OccupiedSlot::wait_for_client(timeout(timeouts.close_timeout, close_socket(socket, close))).await;
    }

    async fn run_protocol(self, socket: &mut Socket, subprotocol: Subprotocol) -> Close {
        let Self { state, origin, credentials, .. } = self;
        let init = timeout(state.timeouts.authentication_timeout, receive_init(socket, subprotocol));
        let init = OccupiedSlot::wait_for_client(init).await;
        let init = init.unwrap_or(Err(Close::InitialisationTimeout));
        let client = match init.and_then(|payload| Ok(credentials.with(&payload)?)) {
            Ok(credentials) => Arc::new(InitializedClient { state, origin, credentials, subprotocol }),
            Err(close) => return close,
        };
        // The session state lasts as long as the socket, and its end closes the socket.
        let session = match Box::pin(client.state.viewer_with(&client.credentials, Scope::Read)).await {
            Ok(viewer) => client.state.open_session(viewer, &client.credentials),
            Err(problem) => return problem.into(),
        };
        if socket.send(Message::Text(Subprotocol::acknowledgement())).await.is_err() {
            return Close::Lost;
        }
        let (mut sink, mut stream) = socket.split();
        let (outbox, queue) = mpsc::channel(QUEUE);
        let unanswered = AtomicU32::new(0);
        let heartbeat = client.state.timeouts.heartbeat_interval;
        let conversation = MessageLoop { client, outbox, operations: Arc::default() };
        tokio::select! {
            close = conversation.listen(&mut stream, &unanswered) => close,
            close = write_loop(&mut sink, queue, subprotocol, heartbeat, &unanswered) => close,
            end = session.wait_for_end() => end.into(),
        }
    }
}

/// Waits for the initialization of the connection, and returns its payload.
async fn receive_init(socket: &mut Socket, subprotocol: Subprotocol) -> Result<Map<String, Value>, Close> {
    loop {
        let Some(text) = message_text(socket.next().await)? else { continue };
        let reply = match subprotocol.decode(&text) {
            Ok(ClientMessage::Init(payload)) => return Ok(payload),
            Ok(ClientMessage::Ping(payload)) => Subprotocol::pong(payload),
            Ok(ClientMessage::Pong | ClientMessage::Stop { .. }) => continue,
            Ok(ClientMessage::Start { .. }) => return Err(Close::Unauthorized),
            Ok(ClientMessage::Terminate) => return Err(Close::Done),
            Err(DecodeError) => return Err(Close::Invalid),
        };
        socket.send(Message::Text(reply)).await.map_err(|_| Close::Lost)?;
    }
}

/// The client of an initialized connection.
struct InitializedClient {
    state: AppState,
    origin: Origin,
    credentials: Credentials,
    subprotocol: Subprotocol,
}

/// An item of the send queue.
enum QueuedMessage {
    /// A message.
    Message(Utf8Bytes),
    /// A result of an operation.
    Result(Arc<Operation>, Bytes),
    /// The last item, which closes the socket.
    Close(Close),
}

/// The exchange of messages between the initialization and the close.
struct MessageLoop {
    client: Arc<InitializedClient>,
    outbox: mpsc::Sender<QueuedMessage>,
    operations: Arc<Operations>,
}

impl MessageLoop {
    /// Receives messages until the socket has to close. The operations of the socket end with it.
    async fn listen(self, stream: &mut SplitStream<&mut Socket>, unanswered: &AtomicU32) -> Close {
        let mut tasks = JoinSet::new();
        loop {
            let received = tokio::select! {
                message = stream.next() => message,
                Some(ended) = tasks.join_next() => match ended {
                    Err(error) if error.is_panic() => return Close::Failed,
                    // The operation has ended, or the client stopped it.
                    _ => continue,
                },
            };
            // Any message shows that the client is alive.
            unanswered.store(0, Ordering::Relaxed);
            let decoded = match message_text(received) {
                Ok(None) => continue,
                Ok(Some(text)) => self.client.subprotocol.decode(&text).map(|message| (message, text.len())),
                Err(close) => return close,
            };
            let Ok((message, bytes)) = decoded else { return Close::Invalid };
            if let Err(close) = self.handle_message(message, bytes, &mut tasks).await {
                return close;
            }
        }
    }

    /// Handles a message of the client.
    async fn handle_message(
        &self,
        message: ClientMessage,
        bytes: usize,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), Close> {
        let subprotocol = self.client.subprotocol;
        let reply = match message {
            ClientMessage::Init(_) => return Err(Close::TooManyInitialisations),
            ClientMessage::Terminate => return Err(Close::Done),
            ClientMessage::Pong => return Ok(()),
            ClientMessage::Ping(payload) => Subprotocol::pong(payload),
            ClientMessage::Stop { id } => {
                if !self.operations.cancel(&id) || !subprotocol.confirms_stop() {
                    return Ok(());
                }
                Subprotocol::completion(&id)
            }
            ClientMessage::Start { id, parameters } => match self.operations.start(&id, bytes) {
                Ok(operation) => {
                    let task = self.run_operation(Arc::clone(&operation), parameters);
                    self.operations.set_task(&operation, tasks.spawn(task));
                    return Ok(());
                }
                Err(LimitError::Taken) => return Err(Close::IdentifierTaken),
                Err(LimitError::Full) => subprotocol.refusal(&id, &[too_many_operations()]),
            },
        };
        // A client that takes no messages is not read either.
        self.outbox.send(QueuedMessage::Message(reply)).await.map_err(|_| Close::Lost)
    }

    /// Executes an operation and sends its results.
    fn run_operation(
        &self,
        operation: Arc<Operation>,
        parameters: Parameters,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (client, outbox) = (Arc::clone(&self.client), self.outbox.clone());
        let operations = Arc::clone(&self.operations);
        async move {
            let last = client.send_results(&operation, parameters, &outbox).await;
            // The client may have stopped the operation in the meantime, and then receives nothing more
            // of it.
            if operations.end(&operation) || matches!(last, QueuedMessage::Close(_)) {
                // The send fails only if the socket is closed.
                let _ = outbox.send(last).await;
            }
        }
    }
}

impl InitializedClient {
    /// Sends the results of an operation as they arrive. Returns the last item to send.
    async fn send_results(
        &self,
        operation: &Arc<Operation>,
        parameters: Parameters,
        outbox: &mpsc::Sender<QueuedMessage>,
    ) -> QueuedMessage {
        let outcome = async {
            let caller = Caller::admit(&self.state, &self.credentials, self.origin).await?;
            execute(&self.state, caller, &self.credentials, async { Ok(parameters) }, Transport::Socket).await
        };
        // The future of the start is boxed, so that its memory is released once the operation has
        // started.
        let rendered = match Box::pin(outcome).await {
            Ok(Outcome::Answer(response, _)) => Rendered::from(*response),
            Ok(Outcome::Subscription(mut subscription)) => loop {
                match subscription.next().await {
                    // The next result is requested only after this one is queued. The send fails only if
                    // the socket is closed.
                    SubscriptionItem::Payload(json) => {
                        let _ = outbox.send(QueuedMessage::Result(Arc::clone(operation), json)).await;
                    }
                    SubscriptionItem::Ended(end) => return QueuedMessage::Close(end.into()),
                }
            },
            Err(Refusal::Request(problem)) if let Some(close) = Close::of(&problem) => {
                return QueuedMessage::Close(close);
            }
            Err(refusal) => refusal.into(),
        };
        QueuedMessage::Message(match rendered {
            Rendered::Refused(errors) => self.subprotocol.refusal(operation.id(), &errors),
            Rendered::Executed(json) => {
                let _ = outbox.send(QueuedMessage::Result(Arc::clone(operation), json.into())).await;
                Subprotocol::completion(operation.id())
            }
        })
    }
}

/// Returns the error of an operation beyond the limits of the socket.
fn too_many_operations() -> ServerError {
    let message = format!(
        "too many operations on one connection, at most {MAX_OPERATIONS} with {MAX_BYTES} bytes in total: \
         end some, or open another connection"
    );
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", "TOO_MANY_OPERATIONS");
    error
}

/// Sends the queued items in batches, and heartbeats that the client answers by itself.
async fn write_loop(
    sink: &mut SplitSink<&mut Socket, Message>,
    mut queue: mpsc::Receiver<QueuedMessage>,
    subprotocol: Subprotocol,
    heartbeat: Duration,
    unanswered: &AtomicU32,
) -> Close {
    let mut heartbeat_ticks = interval_at(Instant::now() + heartbeat, heartbeat);
    heartbeat_ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut queued = Vec::with_capacity(QUEUE);
    loop {
        tokio::select! {
            1.. = queue.recv_many(&mut queued, QUEUE) => {}
            _ = heartbeat_ticks.tick() => {
                if unanswered.fetch_add(1, Ordering::Relaxed) >= MAX_MISSED_HEARTBEATS {
                    return Close::Lost;
                }
                let heartbeat = subprotocol.heartbeat_message().map(Message::Text);
                for message in heartbeat.into_iter().chain([Message::Ping(Bytes::new())]) {
                    if sink.feed(message).await.is_err() {
                        return Close::Lost;
                    }
                }
            }
        }
        for message in queued.drain(..) {
            let text = match message {
                QueuedMessage::Message(text) => text,
                QueuedMessage::Result(operation, json) if operation.is_active() => {
                    subprotocol.next(operation.id(), &json)
                }
                QueuedMessage::Result(..) => continue,
                QueuedMessage::Close(close) => return close,
            };
            // The write also fails if the client takes nothing within the timeout.
            if sink.feed(Message::Text(text)).await.is_err() {
                return Close::Lost;
            }
        }
        if sink.flush().await.is_err() {
            return Close::Lost;
        }
    }
}

/// Returns the text of a message. Returns None for control frames.
fn message_text(message: Option<Result<Message, tungstenite::Error>>) -> Result<Option<Utf8Bytes>, Close> {
    match message {
        Some(Ok(Message::Text(text))) => Ok(Some(text)),
        Some(Ok(Message::Binary(_))) => Err(Close::Invalid),
        Some(Ok(Message::Close(_))) => Err(Close::Done),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Err(tungstenite::Error::Capacity(_))) => Err(Close::TooLarge),
        Some(Err(tungstenite::Error::Utf8(_))) => Err(Close::NotText),
        Some(Err(tungstenite::Error::Protocol(error)))
            if error != ProtocolError::ResetWithoutClosingHandshake =>
        {
            Err(Close::NotFrames)
        }
        Some(Err(_)) | None => Err(Close::Lost),
    }
}

/// Closes a socket with a close frame.
async fn close_socket(mut socket: Socket, close: Close) {
    let Some(frame) = close.frame() else { return };
    if socket.close(Some(frame)).await.is_err() {
        return;
    }
    // The client also sends a close frame, possibly after other messages. If the connection were closed
    // with unread data, the system would reset it, and the client might never receive the close reason.
    while let Some(Ok(_)) = socket.next().await {}
    let io = socket.get_mut();
    if io.shutdown().await.is_ok() {
        let mut unread = vec![0; READ_BUFFER];
        while io.read(&mut unread).await.is_ok_and(|bytes| bytes > 0) {}
    }
}
