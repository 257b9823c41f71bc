//! The GraphQL type of a message about alerts, with the state of its delivery.

use async_graphql::{Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    alert_delivery::{self, Model},
    ids::AlertRuleId,
};

use super::{alert::rule_name, alert_rule::parse_rule_id};
use crate::{
    app::{
        alert::{self, TestOutcome},
        alert_delivery::next_attempt,
    },
    graphql::engine::{
        connection::{Connection, PageArguments, total_count_by},
        error::ApiError,
        id::GlobalId,
        json::write_enums_by_name,
        projection::{InlineList, inline_fields},
        scope::AccountScope,
        user_error::{UserError, UserErrorCode},
    },
    store::AlertDeliverySort,
};

/// A message about alerts to one receiver.
pub(crate) struct AlertDelivery {
    scope: AccountScope,
    row: Model,
}

impl AlertDelivery {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// A message about alerts to one receiver. Failed attempts are repeated for at most one day.
#[Object]
impl AlertDelivery {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::AlertDelivery(self.scope.account.id, self.row.id).into()
    }

    /// The identifier of the message. Every attempt sends it in the header `Idempotency-Key`.
    async fn identifier(&self) -> String {
        self.row.id.to_string()
    }

    /// The identifier of the rule, as used in mutations.
    async fn rule_identifier(&self) -> String {
        self.row.rule_id.to_string()
    }

    /// The name of the rule. Empty if the rule was deleted.
    async fn rule_name(&self) -> Result<String, ApiError> {
        rule_name(&self.scope, self.row.rule_id).await
    }

    /// The channel of the message.
    async fn channel(&self) -> AlertChannel {
        self.row.channel.into()
    }

    /// The reason for the message.
    async fn event(&self) -> AlertEvent {
        self.row.event.into()
    }

    /// The receiver: an e-mail address, or the part of a webhook's URL that is not secret.
    async fn target(&self) -> &str {
        &self.row.target
    }

    /// The state of the delivery.
    async fn state(&self) -> AlertDeliveryState {
        self.row.state.into()
    }

    /// The time at which the message was written, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// The number of attempts so far, at most 11.
    async fn attempts(&self) -> i32 {
        i32::try_from(self.row.attempts).unwrap_or(i32::MAX)
    }

    /// The time of the next attempt. Null if there will be none.
    async fn next_attempt_at(&self) -> Option<DateTime<Utc>> {
        next_attempt(&self.row).map(|at| at.0)
    }

    /// The time at which the message was delivered, or finally failed. Null before.
    async fn ended_at(&self) -> Option<DateTime<Utc>> {
        self.row.ended_at.map(|at| at.0)
    }

    /// The error of the last attempt. Null if the message was delivered, or not sent yet.
    async fn last_error(&self) -> Option<&str> {
        self.row.last_error.as_deref()
    }
}

inline_fields! {
    AlertDelivery: id, identifier, rule_identifier, channel, event, target, state, created_at, attempts, next_attempt_at,
        ended_at, last_error
}

/// A channel for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "alert_delivery::Channel")]
pub(crate) enum AlertChannel {
    /// A signed HTTP request.
    Webhook,
    /// An e-mail.
    Email,
}

/// A reason for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "alert_delivery::Event")]
pub(crate) enum AlertEvent {
    /// Alerts that began or ended.
    Alerts,
    /// A test by a user; no alert began or ended.
    Test,
}

/// The state of a message's delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "alert_delivery::State")]
pub(crate) enum AlertDeliveryState {
    /// The message will be sent, for the first time or again.
    Pending,
    /// The receiver accepted the message.
    Delivered,
    /// The message was not delivered, and its last attempt is over.
    Failed,
}

write_enums_by_name!(AlertChannel, AlertEvent, AlertDeliveryState);

/// Returns a page of the account's messages, or of the messages of one rule.
pub(crate) async fn load_deliveries(
    scope: &AccountScope,
    rule: Option<String>,
    page: PageArguments,
) -> Result<Connection<AlertDelivery>, ApiError> {
    let rule: Option<AlertRuleId> = rule.map(|rule| parse_rule_id(&rule)).transpose()?;
    let sort = AlertDeliverySort::NewestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.alert_delivery_page(rule, sort, &request).await?;
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let store = store.clone();
        async move { store.alert_delivery_count(rule).await }
    });
    Ok(Connection::new(page, sort, |row| AlertDelivery::new(scope, row), total))
}

/// The outcome of `testAlertRule`.
#[derive(SimpleObject)]
pub(crate) struct TestAlertRulePayload {
    /// The messages that were written, one for each receiver. They are sent within seconds;
    /// `Account.alertDeliveries` shows their state.
    deliveries: InlineList<AlertDelivery>,
    /// The errors in the input. If there are any, nothing is sent.
    user_errors: Vec<UserError>,
}

pub(crate) async fn test(scope: &AccountScope, identifier: &str) -> Result<TestAlertRulePayload, ApiError> {
    let rule = parse_rule_id(identifier)?;
    match alert::test(&scope.store, &scope.account.slug, rule, scope.now.into()).await? {
        TestOutcome::Queued(rows) => {
            let scope = scope.with_empty_caches();
            let deliveries =
                InlineList(rows.into_iter().map(|row| AlertDelivery::new(&scope, row)).collect());
            Ok(TestAlertRulePayload { deliveries, user_errors: Vec::new() })
        }
        TestOutcome::TooSoon => Ok(refused_payload("a rule can be tested once a minute".to_owned())),
        TestOutcome::TooMany => {
            Ok(refused_payload(format!("an account can test {} rules a minute", alert::MAX_TESTS)))
        }
        TestOutcome::NotFound => Err(ApiError::NotFound("alert rule")),
    }
}

fn refused_payload(message: String) -> TestAlertRulePayload {
    let user_errors = vec![UserError::new("identifier", UserErrorCode::TooMany, message)];
    TestAlertRulePayload { deliveries: InlineList(Vec::new()), user_errors }
}
