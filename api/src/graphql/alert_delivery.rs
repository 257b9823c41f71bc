//! Messages that tell of alerts, and what became of them.

use async_graphql::{Enum, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    alert_delivery::{self, Model},
    ids::AlertRuleId,
};

use super::{
    alert::rule_name,
    alert_rule::rule_of,
    connection::{Connection, PageArguments, counted},
    error::ApiError,
    in_place::{Items, in_place},
    json::names,
    scope::AccountScope,
    user_error::UserError,
};
use crate::{
    app::{
        alert::{self, Refusal},
        alert_delivery::next_attempt,
    },
    store::AlertDeliverySort,
};

/// A message to one receiver.
pub(super) struct AlertDelivery {
    scope: AccountScope,
    row: Model,
}

impl AlertDelivery {
    fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// A message to one receiver, which is sent until it arrives, for a day at the most.
#[Object]
impl AlertDelivery {
    /// The message: the same in `Idempotency-Key` however often it is sent.
    async fn identifier(&self) -> String {
        self.row.id.to_string()
    }

    /// The rule as mutations name it.
    async fn rule_identifier(&self) -> String {
        self.row.rule_id.to_string()
    }

    /// What the rule is called.
    async fn rule_name(&self) -> Result<String, ApiError> {
        rule_name(&self.scope, self.row.rule_id).await
    }

    /// How it is sent.
    async fn channel(&self) -> AlertChannel {
        self.row.channel.into()
    }

    /// What it is about.
    async fn event(&self) -> AlertEvent {
        self.row.event.into()
    }

    /// Whom it is for: an e-mail address, or of an address that is sent requests what is no secret.
    async fn target(&self) -> &str {
        &self.row.target
    }

    /// What became of it.
    async fn state(&self) -> AlertDeliveryState {
        self.row.state.into()
    }

    /// When it was written, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// How often it was sent, or tried to be; 11 times at the most.
    async fn attempts(&self) -> i32 {
        i32::try_from(self.row.attempts).unwrap_or(i32::MAX)
    }

    /// When it is sent next; null when it is not to be sent any more.
    async fn next_attempt_at(&self) -> Option<DateTime<Utc>> {
        next_attempt(&self.row).map(|at| at.0)
    }

    /// When it arrived or was given up; null before.
    async fn ended_at(&self) -> Option<DateTime<Utc>> {
        self.row.ended_at.map(|at| at.0)
    }

    /// Why it did not arrive the last time; null if it arrived, or was not sent yet.
    async fn last_error(&self) -> Option<&str> {
        self.row.last_error.as_deref()
    }
}

in_place! {
    AlertDelivery: identifier, rule_identifier, channel, event, target, state, created_at, attempts, next_attempt_at,
        ended_at, last_error
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "alert_delivery::Channel")]
pub(super) enum AlertChannel {
    /// By an HTTP request, which is signed.
    Webhook,
    /// By e-mail.
    Email,
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "alert_delivery::Event")]
pub(super) enum AlertEvent {
    /// Alerts that began or ended.
    Alerts,
    /// Nothing: somebody tried whether messages arrive.
    Test,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "alert_delivery::State")]
pub(super) enum AlertDeliveryState {
    /// It is to be sent, perhaps again.
    Pending,
    /// The receiver took it.
    Delivered,
    /// It was given up.
    Failed,
}

names!(AlertChannel, AlertEvent, AlertDeliveryState);

/// A page of the account's messages, or of those of one rule.
pub(super) async fn deliveries(
    scope: &AccountScope,
    rule: Option<String>,
    page: PageArguments,
) -> Result<Connection<AlertDelivery>, ApiError> {
    let rule: Option<AlertRuleId> = rule.map(|rule| rule_of(&rule)).transpose()?;
    let sort = AlertDeliverySort::NewestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.alert_delivery_page(rule, sort, &request).await?;
    let store = scope.store.clone();
    let total = counted(move || {
        let store = store.clone();
        async move { store.alert_delivery_count(rule).await }
    });
    Ok(Connection::new(page, sort, |row| AlertDelivery::new(scope, row), total))
}

/// The outcome of `testAlertRule`.
#[derive(SimpleObject)]
pub(super) struct TestAlertRulePayload {
    /// The messages that were written, one for each address. They are sent within seconds; `Account.alertDeliveries` tells
    /// what became of them.
    deliveries: Items<AlertDelivery>,
    /// What was wrong with the input; nothing is sent unless it is empty.
    user_errors: Vec<UserError>,
}

pub(super) async fn test(scope: &AccountScope, identifier: &str) -> Result<TestAlertRulePayload, ApiError> {
    let rule = rule_of(identifier)?;
    match alert::test(&scope.store, &scope.account.slug, rule, scope.now.into()).await? {
        Ok(rows) => {
            let scope = scope.after_change();
            let deliveries = Items(rows.into_iter().map(|row| AlertDelivery::new(&scope, row)).collect());
            Ok(TestAlertRulePayload { deliveries, user_errors: Vec::new() })
        }
        Err(Refusal::NotFound | Refusal::Rules(_) | Refusal::TooMany) => {
            Err(ApiError::NotFound("alert rule"))
        }
    }
}
