//! One socket from its first byte to its last.

use std::{
    sync::{
        Arc, OnceLock,
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
    message::{Dialect, Said, Unheard},
    operations::{Crowded, MAX_BYTES, MAX_OPERATIONS, Operation, Operations},
};
use crate::{
    domain::audit::Origin,
    http::{
        credentials::Credentials,
        operation::{Asker, Outcome, Parameters, Refusal, Rendered, Way, execute},
        state::AppState,
    },
    live::Delivered,
};

/// Bytes of a message. Queries fit, and variables of some length; what is larger goes by HTTP.
const MAX_MESSAGE: usize = 256 << 10;

/// Bytes that are read at a time. The library's own choice is 128 KiB, for each socket and from its beginning.
const READ_BUFFER: usize = 1 << 10;

/// Bytes that are written at a time, where as much waits: small messages cost what the system takes for each write.
const WRITE_BUFFER: usize = 4 << 10;

/// Messages that wait for the socket, of all operations together.
const QUEUE: usize = 8;

/// Heartbeats in a row that may go unanswered.
const MISSED: u32 = 3;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Whoever opens a socket.
pub(super) struct Client {
    pub(super) state: AppState,
    /// Where it is.
    pub(super) origin: Origin,
    /// What the upgrade showed of who it is.
    pub(super) shown: Credentials,
    /// What is spoken, if the client offered anything that is.
    pub(super) dialect: Option<Dialect>,
}

impl Client {
    /// Speaks with it until the end.
    pub(super) async fn serve(self, upgrade: OnUpgrade) {
        // Otherwise the client went before it was answered.
        let Ok(upgraded) = upgrade.await else { return };
        let _counted = self.state.live.metrics().socket();
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(WRITE_BUFFER)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let io = TokioIo::new(upgraded);
        let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let (patience, draining) = (self.state.patience, self.state.draining.clone());
        let conversation = async {
            match self.dialect {
                None => Close::Subprotocol,
                Some(dialect) => self.converse(&mut socket, dialect).await,
            }
        };
        let close = tokio::select! {
            close = conversation => close,
            () = draining.begun() => Close::GoingAway,
        };
        // Whoever takes nothing any more is not waited for.
        let _ = timeout(patience.farewell, end(socket, close)).await;
    }

    async fn converse(self, socket: &mut Socket, dialect: Dialect) -> Close {
        let Self { state, origin, shown, .. } = self;
        let greeting = match timeout(state.patience.greeting, greeting(socket, dialect)).await {
            Ok(greeting) => greeting,
            Err(_) => Err(Close::InitialisationTimeout),
        };
        let asker = match greeting.and_then(|payload| Ok(shown.with(&payload)?)) {
            Ok(credentials) => Arc::new(Greeted { state, origin, credentials, dialect }),
            Err(close) => return close,
        };
        // It lasts as long as the socket, or ends it.
        let pass = match Box::pin(asker.state.viewer_with(&asker.credentials, Scope::Read)).await {
            Ok(viewer) => asker.state.admit(viewer, &asker.credentials),
            Err(problem) => return problem.into(),
        };
        if socket.send(Message::Text(Dialect::acknowledgement())).await.is_err() {
            return Close::Lost;
        }
        let (mut sink, mut stream) = socket.split();
        let (outbox, queue) = mpsc::channel(QUEUE);
        let unanswered = AtomicU32::new(0);
        let heartbeat = asker.state.patience.heartbeat;
        let conversation = Conversation { asker, outbox, operations: Arc::default() };
        tokio::select! {
            close = conversation.listen(&mut stream, &unanswered) => close,
            close = speak(&mut sink, queue, dialect, heartbeat, &unanswered) => close,
            end = pass.ended() => end.into(),
        }
    }
}

/// Waits for what the client has to begin with, and returns what it brings.
async fn greeting(socket: &mut Socket, dialect: Dialect) -> Result<Map<String, Value>, Close> {
    loop {
        let Some(text) = text(socket.next().await)? else { continue };
        let answer = match dialect.hear(&text) {
            Ok(Said::Begin(payload)) => return Ok(payload),
            Ok(Said::Ping(payload)) => Dialect::pong(payload),
            Ok(Said::Pong | Said::Enough { .. }) => continue,
            Ok(Said::Ask { .. }) => return Err(Close::Unauthorized),
            Ok(Said::Bye) => return Err(Close::Done),
            Err(Unheard) => return Err(Close::Invalid),
        };
        socket.send(Message::Text(answer)).await.map_err(|_| Close::Lost)?;
    }
}

/// Whoever opened a socket and said who they are.
struct Greeted {
    state: AppState,
    origin: Origin,
    credentials: Credentials,
    dialect: Dialect,
}

/// What waits to be sent.
enum Outgoing {
    /// A message.
    Message(Utf8Bytes),
    /// A result of an operation.
    Result(Arc<Operation>, Bytes),
    /// The last thing, which is that this is the end.
    Close(Close),
}

/// What is said between the greeting and the end.
struct Conversation {
    asker: Arc<Greeted>,
    outbox: mpsc::Sender<Outgoing>,
    operations: Arc<Operations>,
}

impl Conversation {
    /// Hears what the client says until it is the end. What it asked for ends with this.
    async fn listen(self, stream: &mut SplitStream<&mut Socket>, unanswered: &AtomicU32) -> Close {
        let mut tasks = JoinSet::new();
        loop {
            let heard = tokio::select! {
                message = stream.next() => message,
                Some(ended) = tasks.join_next() => match ended {
                    Err(error) if error.is_panic() => return Close::Failed,
                    // It ended by itself, or the client wanted it to.
                    _ => continue,
                },
            };
            // Whatever comes shows that there is somebody.
            unanswered.store(0, Ordering::Relaxed);
            let said = match text(heard) {
                Ok(None) => continue,
                Ok(Some(text)) => self.asker.dialect.hear(&text).map(|said| (said, text.len())),
                Err(close) => return close,
            };
            let Ok((said, bytes)) = said else { return Close::Invalid };
            if let Err(close) = self.answer(said, bytes, &mut tasks).await {
                return close;
            }
        }
    }

    /// Does what the client wants.
    async fn answer(&self, said: Said, bytes: usize, tasks: &mut JoinSet<()>) -> Result<(), Close> {
        let dialect = self.asker.dialect;
        let answer = match said {
            Said::Begin(_) => return Err(Close::TooManyInitialisations),
            Said::Bye => return Err(Close::Done),
            Said::Pong => return Ok(()),
            Said::Ping(payload) => Dialect::pong(payload),
            Said::Enough { id } => {
                if !self.operations.cancel(&id) || !dialect.confirms_the_end() {
                    return Ok(());
                }
                Dialect::completion(&id)
            }
            Said::Ask { id, parameters } => match self.operations.begin(&id, bytes) {
                Ok(operation) => {
                    let task = self.carry_out(Arc::clone(&operation), parameters);
                    self.operations.is_done_by(&operation, tasks.spawn(task));
                    return Ok(());
                }
                Err(Crowded::Taken) => return Err(Close::IdentifierTaken),
                Err(Crowded::Full) => dialect.refusal(&id, &[crowded()]),
            },
        };
        // Where the client takes nothing, nothing more is heard of it either.
        self.outbox.send(Outgoing::Message(answer)).await.map_err(|_| Close::Lost)
    }

    /// Executes an operation and sends what comes of it.
    fn carry_out(
        &self,
        operation: Arc<Operation>,
        parameters: Parameters,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (asker, outbox) = (Arc::clone(&self.asker), self.outbox.clone());
        let operations = Arc::clone(&self.operations);
        async move {
            let last = asker.results(&operation, parameters, &outbox).await;
            // Its client may have ended it meanwhile, and hears no more of it.
            if operations.end(&operation) || matches!(last, Outgoing::Close(_)) {
                // Where nobody takes it the socket is gone.
                let _ = outbox.send(last).await;
            }
        }
    }
}

impl Greeted {
    /// Sends the results of an operation as they come, and returns what is to be said last.
    async fn results(
        &self,
        operation: &Arc<Operation>,
        parameters: Parameters,
        outbox: &mpsc::Sender<Outgoing>,
    ) -> Outgoing {
        let outcome = async {
            let known = OnceLock::new();
            let asker = Asker::signed_in(&self.state, &self.credentials, self.origin, &known).await?;
            execute(&self.state, asker, async { Ok(parameters) }, Way::Socket).await
        };
        // What it takes to begin is let go of once it has begun.
        let rendered = match Box::pin(outcome).await {
            Ok(Outcome::Answer(response)) => Rendered::from(*response),
            Ok(Outcome::Subscription(mut subscription)) => loop {
                match subscription.next().await {
                    // Until there is room for it nothing newer is asked for. Where nobody takes it the socket is gone.
                    Delivered::Payload(json) => {
                        let _ = outbox.send(Outgoing::Result(Arc::clone(operation), json)).await;
                    }
                    Delivered::Ended(end) => return Outgoing::Close(end.into()),
                }
            },
            Err(Refusal::Request(problem)) if let Some(close) = Close::of(&problem) => {
                return Outgoing::Close(close);
            }
            Err(refusal) => refusal.into(),
        };
        Outgoing::Message(match rendered {
            Rendered::Refused(errors) => self.dialect.refusal(operation.id(), &errors),
            Rendered::Executed(json) => {
                let _ = outbox.send(Outgoing::Result(Arc::clone(operation), json.into())).await;
                Dialect::completion(operation.id())
            }
        })
    }
}

/// Why an operation does not begin that would be one too many.
fn crowded() -> ServerError {
    let message = format!(
        "{MAX_OPERATIONS} operations of {MAX_BYTES} bytes in all may be under way on one connection: end some, or open \
         another"
    );
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", "TOO_MANY_OPERATIONS");
    error
}

/// Sends what there is to send, all that waits together, and now and then something that the client answers by itself.
async fn speak(
    sink: &mut SplitSink<&mut Socket, Message>,
    mut queue: mpsc::Receiver<Outgoing>,
    dialect: Dialect,
    heartbeat: Duration,
    unanswered: &AtomicU32,
) -> Close {
    let mut beats = interval_at(Instant::now() + heartbeat, heartbeat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut waiting = Vec::with_capacity(QUEUE);
    loop {
        tokio::select! {
            1.. = queue.recv_many(&mut waiting, QUEUE) => {}
            _ = beats.tick() => {
                if unanswered.fetch_add(1, Ordering::Relaxed) >= MISSED {
                    return Close::Lost;
                }
                let beat = dialect.beat().map(Message::Text);
                for message in beat.into_iter().chain([Message::Ping(Bytes::new())]) {
                    if sink.feed(message).await.is_err() {
                        return Close::Lost;
                    }
                }
            }
        }
        for outgoing in waiting.drain(..) {
            let text = match outgoing {
                Outgoing::Message(text) => text,
                Outgoing::Result(operation, json) if operation.is_wanted() => {
                    dialect.next(operation.id(), &json)
                }
                Outgoing::Result(..) => continue,
                Outgoing::Close(close) => return close,
            };
            // It fails, too, where the client takes nothing for too long.
            if sink.feed(Message::Text(text)).await.is_err() {
                return Close::Lost;
            }
        }
        if sink.flush().await.is_err() {
            return Close::Lost;
        }
    }
}

/// The text that came, if it was one.
fn text(message: Option<Result<Message, tungstenite::Error>>) -> Result<Option<Utf8Bytes>, Close> {
    match message {
        Some(Ok(Message::Text(text))) => Ok(Some(text)),
        Some(Ok(Message::Binary(_))) => Err(Close::Invalid),
        Some(Ok(Message::Close(_))) => Err(Close::Done),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Err(tungstenite::Error::Capacity(_))) => Err(Close::TooLarge),
        Some(Err(tungstenite::Error::Utf8(_))) => Err(Close::NotText),
        Some(Err(tungstenite::Error::Protocol(wrong)))
            if wrong != ProtocolError::ResetWithoutClosingHandshake =>
        {
            Err(Close::NotFrames)
        }
        Some(Err(_)) | None => Err(Close::Lost),
    }
}

/// Ends a socket as its client is to see it.
async fn end(mut socket: Socket, close: Close) {
    let Some(frame) = close.frame() else { return };
    if socket.close(Some(frame)).await.is_err() {
        return;
    }
    // The client says goodbye, too, and may have said more before. Were the connection closed with that unread, the system
    // would tell the client so, which might never see why.
    while let Some(Ok(_)) = socket.next().await {}
    let io = socket.get_mut();
    if io.shutdown().await.is_ok() {
        let mut rest = vec![0; READ_BUFFER];
        while io.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
    }
}
