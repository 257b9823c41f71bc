//! Delivery of messages from the outbox. A message is retried until it arrives, for at most a day.
//!
//! Before a message is sent, its due time moves to the next attempt. This claims it for one server. If
//! that server crashes, the message is sent again at the due time, under the same identifier.

use std::sync::Arc;

use axum::http::{Request, header};
use entity::{
    Timestamp,
    alert_delivery::{Channel, Model, State},
    ids::AccountId,
};
use futures::{StreamExt, stream};
use tokio::sync::Mutex;
use url::Url;

use crate::{
    clock::Clock,
    config::AlertConfig,
    domain::alert::{MAX_ATTEMPTS, retry_delay_after, sign},
    error::Chain,
    http_client::{AllowedTargets, FetchError, OutgoingClient},
    mail::{MailError, Mailer},
    store::{AccountStore, DueDelivery, MAX_DUE_DELIVERIES, MessageContent, Store, StoreError},
};

/// The maximum number of messages per round.
const MESSAGES: usize = 32;

/// The maximum number of messages of one account per round.
const MESSAGES_OF_ACCOUNT: usize = 8;

/// The maximum number of concurrent deliveries.
const MAX_CONCURRENT: usize = 8;

/// The maximum length of a stored failure reason, in characters.
const MAX_REASON: usize = 300;

/// The claim time of a message during its last attempt, in seconds.
const LAST_ATTEMPT: i64 = 600;

/// The sender of outbox messages.
#[derive(Clone)]
pub struct Deliveries {
    store: Store,
    clock: Arc<dyn Clock>,
    outgoing: OutgoingClient,
    mailer: Option<Mailer>,
    /// The last account that a round served.
    after: Arc<Mutex<Option<AccountId>>>,
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryRound {
    /// The number of delivered messages.
    pub delivered: u64,
    /// The number of messages that failed and will be retried.
    pub retried_messages: u64,
    /// The number of messages that failed for good.
    pub failed: u64,
    /// True if more messages may be due now.
    pub has_more: bool,
}

/// The reason why a message did not arrive.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Mail(#[from] MailError),
    #[error("the rule was deleted")]
    NoRule,
    #[error("the address is malformed")]
    Address,
    #[error("the message cannot be decrypted")]
    Sealed,
    #[error("the sending server stopped before it recorded the result")]
    NoOutcome,
}

impl Deliveries {
    /// Returns a sender of the messages in `store`, with the settings of `config`.
    #[must_use]
    pub fn new(store: Store, clock: Arc<dyn Clock>, config: &AlertConfig) -> Self {
        let allowed_targets =
            if config.private_targets { AllowedTargets::AnyAddress } else { AllowedTargets::Public };
        let mailer = config.smtp.as_ref().map(Mailer::new);
        Self {
            store,
            clock,
            outgoing: OutgoingClient::with_allowed_targets(allowed_targets),
            mailer,
            after: Arc::default(),
        }
    }

    /// Sends the messages that are due.
    ///
    /// # Errors
    /// Returns an error if the due messages cannot be loaded.
    #[tracing::instrument(name = "app.alert_delivery.round", skip_all)]
    pub async fn run_round(&self) -> Result<DeliveryRound, StoreError> {
        let (deliveries, has_more) = self.select_due().await?;
        let mut round = DeliveryRound { has_more, ..DeliveryRound::default() };
        let outcomes = stream::iter(deliveries)
            .map(|deliveries| self.deliver(deliveries))
            .buffer_unordered(MAX_CONCURRENT);
        let mut outcomes = std::pin::pin!(outcomes);
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(Some(State::Delivered)) => round.delivered += 1,
                Ok(Some(State::Pending)) => round.retried_messages += 1,
                Ok(Some(State::Failed)) => round.failed += 1,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "failed to record the result of an alert delivery");
                }
            }
        }
        Ok(round)
    }

    /// Returns due messages, a few of each account, from the account after the last one served. The
    /// second value is true if more are due.
    async fn select_due(&self) -> Result<(Vec<DueDelivery>, bool), StoreError> {
        let mut after = self.after.lock().await;
        let deliveries = self.store.system().due_deliveries(self.clock.timestamp(), *after).await?;
        let is_last = (deliveries.len() as u64) < MAX_DUE_DELIVERIES;
        let (mut selected, mut has_more) = (Vec::new(), !is_last || after.is_some());
        *after = None;
        for account_deliveries in deliveries.chunk_by(|a, b| a.account_id == b.account_id) {
            let count = account_deliveries.len().min(MESSAGES_OF_ACCOUNT);
            if selected.len() + count > MESSAGES {
                return Ok((selected, true));
            }
            selected.extend_from_slice(&account_deliveries[..count]);
            *after = Some(account_deliveries[0].account_id);
            has_more |= count < account_deliveries.len();
        }
        // After the last account, the next round begins again at the first.
        if is_last {
            *after = None;
        }
        Ok((selected, has_more))
    }

    /// Claims and sends a message, and stores the result. Returns `None` if another server has claimed
    /// it.
    async fn deliver(&self, due: DueDelivery) -> Result<Option<State>, StoreError> {
        let store = self.store.for_background_work(due.account_id);
        let now = self.clock.timestamp().timestamp_millis();
        let next_attempt_at = |attempts| now + 1_000 * retry_delay_after(attempts).unwrap_or(LAST_ATTEMPT);
        let Some(row) = store.claim_delivery(due, next_attempt_at).await? else { return Ok(None) };
        let outcome = if row.attempts > MAX_ATTEMPTS {
            Err(SendError::NoOutcome)
        } else {
            self.send(&store, &row).await?
        };
        let now = self.clock.timestamp();
        let (state, reason) = match outcome {
            Ok(()) => (State::Delivered, None),
            Err(error) => {
                let is_final = matches!(error, SendError::NoRule | SendError::Mail(MailError::NoServer));
                let is_last_attempt = is_final || retry_delay_after(row.attempts).is_none();
                let state = if is_last_attempt { State::Failed } else { State::Pending };
                let reason: String = Chain(&error).to_string().chars().take(MAX_REASON).collect();
                tracing::info!(message = %row.id, attempts = row.attempts, %reason, ?state, "alert delivery failed");
                (state, Some(reason))
            }
        };
        let end = (state != State::Pending).then_some((state, now));
        store.record_delivery_outcome(row.id, end, reason).await?;
        Ok(Some(state))
    }

    async fn send(&self, store: &AccountStore, row: &Model) -> Result<Result<(), SendError>, StoreError> {
        let content = match store.decrypt_message(row) {
            Ok(content) => content,
            Err(StoreError::Decryption(_)) => return Ok(Err(SendError::Sealed)),
            Err(error) => return Err(error),
        };
        match row.channel {
            Channel::Email => {
                let Some(mailer) = &self.mailer else { return Ok(Err(MailError::NoServer.into())) };
                let MessageContent { to, title, body } = content;
                Ok(mailer.send(&row.id.to_string(), &to, &title, body).await.map_err(SendError::from))
            }
            Channel::Webhook => {
                let rule = store.alert_rules_by_id(&[row.rule_id]).await?.pop();
                let Some(rule) = rule else { return Ok(Err(SendError::NoRule)) };
                let secret = match store.decrypt_alert_channels(&rule) {
                    Ok(channels) => channels.secret,
                    Err(StoreError::Decryption(_)) => return Ok(Err(SendError::Sealed)),
                    Err(error) => return Err(error),
                };
                let signature = sign(secret.reveal(), self.clock.now().timestamp(), content.body.as_bytes());
                Ok(self.post(&content, row, &signature).await)
            }
        }
    }

    async fn post(&self, content: &MessageContent, row: &Model, signature: &str) -> Result<(), SendError> {
        let url: Url = content.to.parse().map_err(|_| SendError::Address)?;
        let request = Request::post("/")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("galvo/", env!("CARGO_PKG_VERSION")))
            .header("Idempotency-Key", row.id.to_string())
            .header("Galvo-Signature", signature)
            .body(content.body.clone().into_bytes())
            .map_err(|_| SendError::Address)?;
        match self.outgoing.send_for_status(&url, request).await? {
            status if status.is_success() => Ok(()),
            status => Err(FetchError::Status(status).into()),
        }
    }
}

/// Returns the time of a message's next attempt. `None` if its delivery has ended.
#[must_use]
pub fn next_attempt(row: &Model) -> Option<Timestamp> {
    let due_ms = (row.state == State::Pending).then_some(row.due_key)?;
    chrono::DateTime::from_timestamp_millis(due_ms).map(Timestamp::from)
}
