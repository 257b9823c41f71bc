//! Sending what was written: each message until it arrives, for a day at the most.
//!
//! Before a message is sent it is put off until the next attempt would be due. So one server sends it at a time; and if that
//! dies meanwhile, it is sent again then, under the same identifier.

use std::sync::Arc;

use axum::http::{Request, header};
use entity::{
    Timestamp,
    alert_delivery::{Channel, Model, State},
};
use futures::{StreamExt, stream};
use url::Url;

use crate::{
    clock::Clock,
    config::AlertConfig,
    domain::alert::{MAX_ATTEMPTS, delay_after, sign},
    error::Chain,
    mail::{MailError, Mailer},
    outgoing::{FetchError, Outgoing, Reach},
    store::{AccountStore, DueDelivery, Letter, Store, StoreError},
};

/// Messages that are taken at once at the most.
const MESSAGES: u64 = 32;

/// Messages that are under way at a time.
const AT_A_TIME: usize = 8;

/// Characters that are kept of why a message did not arrive.
const MAX_REASON: usize = 300;

/// How long a message is put off while it is sent for the last time, in seconds.
const LAST_ATTEMPT: i64 = 600;

/// Sends messages.
#[derive(Clone)]
pub struct Deliveries {
    store: Store,
    clock: Arc<dyn Clock>,
    outgoing: Outgoing,
    mailer: Option<Mailer>,
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Messages that arrived.
    pub delivered: u64,
    /// Messages that did not, and are sent again.
    pub put_off: u64,
    /// Messages that were given up.
    pub failed: u64,
    /// Whether there may be more to send at once.
    pub more: bool,
}

/// Why a message did not arrive.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Mail(#[from] MailError),
    #[error("the rule is gone")]
    NoRule,
    #[error("the address is none")]
    Address,
    #[error("it cannot be decrypted")]
    Sealed,
    #[error("a server that sent it did not say whether it arrived")]
    NoWord,
}

impl Deliveries {
    /// Messages of `store` are sent as `config` says.
    #[must_use]
    pub fn new(store: Store, clock: Arc<dyn Clock>, config: &AlertConfig) -> Self {
        let reach = if config.private_targets { Reach::Everybody } else { Reach::Public };
        let mailer = config.smtp.as_ref().map(Mailer::new);
        Self { store, clock, outgoing: Outgoing::to(reach), mailer }
    }

    /// Sends messages that are due.
    ///
    /// # Errors
    /// When it cannot be found out which these are.
    #[tracing::instrument(name = "app.alert_delivery.round", skip_all)]
    pub async fn round(&self) -> Result<Sent, StoreError> {
        let due = self.store.system().due_deliveries(self.clock.timestamp(), MESSAGES).await?;
        let mut sent = Sent { more: due.len() as u64 == MESSAGES, ..Sent::default() };
        let outcomes = stream::iter(due).map(|due| self.deliver(due)).buffer_unordered(AT_A_TIME);
        let mut outcomes = std::pin::pin!(outcomes);
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(Some(State::Delivered)) => sent.delivered += 1,
                Ok(Some(State::Pending)) => sent.put_off += 1,
                Ok(Some(State::Failed)) => sent.failed += 1,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "what became of a message was not written down");
                }
            }
        }
        Ok(sent)
    }

    /// Sends a message, unless somebody else does, and writes down what became of it.
    async fn deliver(&self, due: DueDelivery) -> Result<Option<State>, StoreError> {
        let store = self.store.for_work_of(due.account_id);
        let now = self.clock.timestamp().timestamp_millis();
        let next = |attempts| now + 1_000 * delay_after(attempts).unwrap_or(LAST_ATTEMPT);
        let Some(row) = store.claim_delivery(due, next).await? else { return Ok(None) };
        let outcome = if row.attempts > MAX_ATTEMPTS {
            Err(SendError::NoWord)
        } else {
            self.send(&store, &row).await?
        };
        let now = self.clock.timestamp();
        let (state, reason) = match outcome {
            Ok(()) => (State::Delivered, None),
            Err(error) => {
                let gone = matches!(error, SendError::NoRule | SendError::Mail(MailError::NoServer));
                let last = gone || delay_after(row.attempts).is_none();
                let state = if last { State::Failed } else { State::Pending };
                let reason: String = Chain(&error).to_string().chars().take(MAX_REASON).collect();
                tracing::info!(message = %row.id, attempts = row.attempts, %reason, ?state, "a message did not arrive");
                (state, Some(reason))
            }
        };
        let end = (state != State::Pending).then_some((state, now));
        store.note_delivery(row.id, end, reason).await?;
        Ok(Some(state))
    }

    async fn send(&self, store: &AccountStore, row: &Model) -> Result<Result<(), SendError>, StoreError> {
        let letter = match store.letter(row) {
            Ok(letter) => letter,
            Err(StoreError::Sealed(_)) => return Ok(Err(SendError::Sealed)),
            Err(error) => return Err(error),
        };
        match row.channel {
            Channel::Email => {
                let Some(mailer) = &self.mailer else { return Ok(Err(MailError::NoServer.into())) };
                let Letter { to, title, body } = letter;
                Ok(mailer.send(&row.id.to_string(), &to, &title, body).await.map_err(SendError::from))
            }
            Channel::Webhook => {
                let rule = store.alert_rules_by_id(&[row.rule_id]).await?.pop();
                let Some(rule) = rule else { return Ok(Err(SendError::NoRule)) };
                let secret = match store.alert_channels(&rule) {
                    Ok(channels) => channels.secret,
                    Err(StoreError::Sealed(_)) => return Ok(Err(SendError::Sealed)),
                    Err(error) => return Err(error),
                };
                let signature = sign(secret.reveal(), self.clock.now().timestamp(), letter.body.as_bytes());
                Ok(self.post(&letter, row, &signature).await)
            }
        }
    }

    async fn post(&self, letter: &Letter, row: &Model, signature: &str) -> Result<(), SendError> {
        let url: Url = letter.to.parse().map_err(|_| SendError::Address)?;
        let request = Request::post("/")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("galvo/", env!("CARGO_PKG_VERSION")))
            .header("Idempotency-Key", row.id.to_string())
            .header("Galvo-Signature", signature)
            .body(letter.body.clone().into_bytes())
            .map_err(|_| SendError::Address)?;
        match self.outgoing.tell(&url, request).await? {
            status if status.is_success() => Ok(()),
            status => Err(FetchError::Status(status).into()),
        }
    }
}

/// For who reads what became of messages: when a message is sent again.
#[must_use]
pub fn next_attempt(row: &Model) -> Option<Timestamp> {
    let due = (row.state == State::Pending).then_some(row.due_key)?;
    chrono::DateTime::from_timestamp_millis(due).map(Timestamp::from)
}
