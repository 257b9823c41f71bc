//! Alert rules: their changes, and the rounds that evaluate them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use chrono::TimeDelta;
use entity::{
    Timestamp,
    alert_delivery::{Channel, Event},
    alert_rule::{Condition, Model},
    audit_entry::Action,
    ids::{AccountId, AlertDeliveryId, AlertId, AlertRuleId, ClusterId, UserId},
};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::{
    clock::Clock,
    domain::{
        alert::{
            AlertError, AlertItem, Channels, Decision, Episode, MAX_RULES, Message, Phase, RuleInput,
            SigningKey, Subject, alert_text, condition_unit, evaluate_episodes, subject_text,
        },
        audit::{Entry, Target},
    },
    error::Chain,
    store::{AccountStore, ChangeAuthor, MessageContent, NewDelivery, Store, StoreError},
};

/// The interval between evaluations of a cost rule, in milliseconds. Costs change slowly and are the
/// most expensive to evaluate.
const COST_INTERVAL_MS: i64 = 5 * 60 * 1_000;

/// The shortest time between two tests of a rule.
const TEST_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// The largest number of rules that an account tests in [`TEST_INTERVAL`].
pub(crate) const MAX_TESTS: usize = 10;

/// The number of accounts that one statement loads.
const ACCOUNTS_PER_STATEMENT: u64 = 500;

/// The evaluator of alert rules.
#[derive(Clone)]
pub struct Alerts {
    store: Store,
    clock: Arc<dyn Clock>,
    /// The time of the next evaluation of each cost rule, in epoch milliseconds.
    next_cost_evaluations: Arc<Mutex<HashMap<AlertRuleId, i64>>>,
    /// The last account that the current round evaluated.
    last_account: Arc<tokio::sync::Mutex<Option<AccountId>>>,
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlertRound {
    /// The number of messages added to the outbox.
    pub messages: u64,
    /// The number of rules that failed to evaluate. The next round evaluates them again.
    pub failed: u64,
    /// True if the round ran out of time before the last account.
    pub has_more: bool,
}

impl Alerts {
    /// Returns an evaluator of the rules in `store`.
    #[must_use]
    pub fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, next_cost_evaluations: Arc::default(), last_account: Arc::default() }
    }

    /// Evaluates the rules of all accounts, and stops after `deadline`. The next round continues where a
    /// stopped one ended.
    ///
    /// # Errors
    /// Returns an error if the accounts with rules cannot be loaded.
    #[tracing::instrument(name = "app.alert.round", skip_all)]
    pub async fn run_round(&self, now: Timestamp, deadline: Instant) -> Result<AlertRound, StoreError> {
        let (mut round, mut last_account) = (AlertRound::default(), self.last_account.lock().await);
        loop {
            let accounts =
                self.store.system().accounts_with_alerts(*last_account, ACCOUNTS_PER_STATEMENT).await?;
            let is_last = (accounts.len() as u64) < ACCOUNTS_PER_STATEMENT;
            for account in accounts {
                self.evaluate_account(account, now, &mut round).await?;
                *last_account = Some(account);
                if Instant::now() >= deadline {
                    return Ok(AlertRound { has_more: true, ..round });
                }
            }
            if is_last {
                *last_account = None;
                return Ok(round);
            }
        }
    }

    async fn evaluate_account(
        &self,
        account: AccountId,
        now: Timestamp,
        round: &mut AlertRound,
    ) -> Result<(), StoreError> {
        let Some(slug) = self.store.system().account_slug(account).await? else { return Ok(()) };
        let store = self.store.for_background_work(account);
        for rule in store.enabled_alert_rules().await? {
            if !self.is_due(&rule, now) {
                continue;
            }
            match evaluate_rule(&store, &slug, rule, now, &self.clock).await {
                Ok(messages) => round.messages += messages,
                // A rule that fails must not keep other rules from being evaluated.
                Err(error) => {
                    round.failed += 1;
                    tracing::warn!(%account, error = %Chain(&error), "failed to evaluate an alert rule");
                }
            }
        }
        Ok(())
    }

    fn is_due(&self, rule: &Model, now: Timestamp) -> bool {
        let Condition::Cost { .. } = rule.condition else { return true };
        let now = now.timestamp_millis();
        let mut next_evaluations = self.next_cost_evaluations.lock().unwrap_or_else(PoisonError::into_inner);
        let is_cost_due = next_evaluations.get(&rule.id).is_none_or(|next_at| *next_at <= now);
        let is_new = now - rule.changed_at.timestamp_millis() < COST_INTERVAL_MS;
        if is_cost_due {
            next_evaluations.retain(|_, next_at| *next_at > now);
            next_evaluations.insert(rule.id, now + COST_INTERVAL_MS);
        }
        is_cost_due || is_new
    }
}

/// Evaluates a rule. Stores the changed alerts and their messages in one transaction.
async fn evaluate_rule(
    store: &AccountStore,
    slug: &str,
    rule: Model,
    now: Timestamp,
    clock: &Arc<dyn Clock>,
) -> Result<u64, StoreError> {
    let holding_values = store.evaluate_alert_rule(&rule, now).await?;
    let (slug, rule, holding_values, clock) =
        (slug.to_owned(), Arc::new(rule), Arc::new(holding_values), Arc::clone(clock));
    store
        .write(move |store| {
            let (slug, rule, holding_values) = (slug.clone(), Arc::clone(&rule), Arc::clone(&holding_values));
            // Not `now`, since the round may have begun long before.
            let changed_at = clock.timestamp();
            Box::pin(async move {
                // The lock serializes servers that evaluate the same rule. The later one finds the
                // alerts of the first.
                let locked = store.lock_alert_rule(rule.id).await?;
                if locked.as_ref() != Some(&*rule) {
                    return Ok(0);
                }
                let (now_ms, cool_down_ms) = (now.timestamp_millis(), rule.cool_down_seconds * 1_000);
                let episodes = store.load_alert_episodes(rule.id, now_ms - cool_down_ms).await?;
                let mut decision = evaluate_episodes(now_ms, cool_down_ms, &episodes, &holding_values);
                let new_id = || AlertId(Uuid::now_v7());
                store.record_alerts(rule.id, &mut decision, new_id, changed_at).await?;
                let alerts = build_items(&store, &rule, &decision).await?;
                if alerts.is_empty() {
                    return Ok(0);
                }
                let deliveries = build_messages(&store, &slug, &rule, Event::Alerts, &alerts, now)?;
                Ok(store.enqueue_deliveries(rule.id, deliveries, now).await?.len() as u64)
            })
        })
        .await
}

/// Returns the alerts to report, with the names of their subjects.
async fn build_items(
    store: &AccountStore,
    rule: &Model,
    decision: &Decision,
) -> Result<Vec<AlertItem>, StoreError> {
    let reported_ends: &[usize] = if rule.tells_end { &decision.ended } else { &[] };
    let select_episodes = |indexes: &[usize], phase| {
        indexes.iter().map(|index| (decision.changed[*index].clone(), phase)).collect::<Vec<_>>()
    };
    let transitions: Vec<(Episode, Phase)> =
        [select_episodes(&decision.started, Phase::Firing), select_episodes(reported_ends, Phase::Resolved)]
            .concat();
    if transitions.is_empty() {
        return Ok(Vec::new());
    }
    let clusters: Vec<ClusterId> =
        transitions.iter().filter_map(|(episode, _)| episode.subject.cluster()).collect();
    let users: Vec<UserId> = transitions
        .iter()
        .filter_map(|(episode, _)| match episode.subject {
            Subject::User(user) => Some(user),
            _ => None,
        })
        .collect();
    let clusters: BTreeMap<ClusterId, Option<String>> = if clusters.is_empty() {
        BTreeMap::new()
    } else {
        store.clusters_by_id(&clusters).await?.into_iter().map(|row| (row.id, row.name)).collect()
    };
    let users = if users.is_empty() { HashMap::new() } else { store.users_by_id(&users).await? };
    let item = |(episode, phase): (Episode, Phase)| {
        let cluster = episode.subject.cluster().map(|id| (id, clusters.get(&id).cloned().flatten()));
        let (user, flag) = match episode.subject {
            Subject::User(user) => (users.get(&user).map(|user| user.name.clone()), None),
            Subject::Flag(_, kind) => (None, Some(kind)),
            Subject::Account | Subject::Cluster(_) => (None, None),
        };
        let name = cluster.as_ref().map_or(user.as_deref(), |(_, name)| name.as_deref());
        let subject = subject_text(episode.subject, &rule.scope, name);
        let time = |ms| chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default();
        Some(AlertItem {
            id: episode.id?,
            phase,
            since: time(episode.since),
            until: (phase == Phase::Resolved).then(|| time(episode.ended_key)),
            value: episode.value,
            unit: condition_unit(&rule.condition, flag),
            text: alert_text(&rule.condition, flag, episode.value, &subject),
            cluster,
            user,
            flag,
        })
    };
    Ok(transitions.into_iter().filter_map(item).collect())
}

/// Returns the messages about some alerts, one for each target of the rule.
fn build_messages(
    store: &AccountStore,
    slug: &str,
    rule: &Model,
    event: Event,
    alerts: &[AlertItem],
    now: Timestamp,
) -> Result<Vec<NewDelivery>, StoreError> {
    let channels = store.decrypt_alert_channels(rule)?;
    let targets = [(Channel::Webhook, channels.webhooks), (Channel::Email, channels.emails)];
    let targets = targets
        .into_iter()
        .flat_map(|(channel, addresses)| addresses.into_iter().map(move |address| (channel, address)));
    let delivery = |(channel, address): (Channel, String)| {
        let id = AlertDeliveryId(Uuid::now_v7());
        let message = Message {
            id,
            event,
            at: now.0,
            account: slug.to_owned(),
            rule: (rule.id, rule.name.clone()),
            alerts: alerts.to_vec(),
        };
        let (target, body) = match channel {
            Channel::Webhook => (Channels::redact_webhook(&address), message.json().to_string()),
            Channel::Email => (address.clone(), message.text()),
        };
        NewDelivery {
            id,
            channel,
            event,
            target,
            content: MessageContent { to: address, title: message.title(), body },
        }
    };
    Ok(targets.map(delivery).collect())
}

/// The reason why a rule was not created or changed.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// The rule does not exist.
    NotFound,
    /// Fields are invalid. Each entry has a field and its error.
    InvalidFields(Vec<(&'static str, AlertError)>),
    /// The account has the maximum number of rules.
    TooMany,
}

/// A change of a rule's targets. `None` keeps the current ones.
#[derive(Clone)]
pub(crate) struct Targets {
    pub(crate) webhooks: Option<Vec<String>>,
    pub(crate) emails: Option<Vec<String>>,
    /// True if the signing key is replaced by a new one.
    pub(crate) new_secret: bool,
}

/// Returns the audit detail of a rule. Targets are counted only, because their addresses may be secrets.
fn rule_detail(input: &RuleInput, channels: &Channels) -> Value {
    json!({
        "name": input.name,
        "enabled": input.enabled,
        "condition": input.condition,
        "webhooks": channels.webhooks.len(),
        "emails": channels.emails.len(),
    })
}

type Outcome<T> = Result<Result<T, Refusal>, StoreError>;

/// Creates a rule and returns its secret, which is shown only once.
pub(crate) async fn create(
    store: &AccountStore,
    input: RuleInput,
    targets: Targets,
    author: ChangeAuthor,
) -> Outcome<(Model, SigningKey)> {
    let channels = Channels {
        webhooks: targets.webhooks.unwrap_or_default(),
        emails: targets.emails.unwrap_or_default(),
        secret: SigningKey::generate(&mut rand::rng()),
    };
    let errors = [input.check(), channels.check()].concat();
    if !errors.is_empty() {
        return Ok(Err(Refusal::InvalidFields(errors)));
    }
    let secret = channels.secret.clone();
    let row = store.write(move |store| {
        let (input, channels) = (input.clone(), channels.clone());
        Box::pin(async move {
            if store.alert_rule_count().await? >= MAX_RULES {
                return Ok(None);
            }
            let (id, detail) = (AlertRuleId(Uuid::now_v7()), rule_detail(&input, &channels));
            let row = store.upsert_alert_rule(id, input, &channels, author.at, author).await?;
            store
                .record_audit_entry(Entry::done(Action::CreateAlertRule, Target::AlertRule(id), detail))
                .await?;
            Ok(Some(row))
        })
    });
    Ok(row.await?.map(|row| (row, secret)).ok_or(Refusal::TooMany))
}

/// Changes a rule. Its open alerts end without a message if the condition or the scope changes, or if
/// the rule is disabled.
pub(crate) async fn update(
    store: &AccountStore,
    id: AlertRuleId,
    input: RuleInput,
    targets: Targets,
    author: ChangeAuthor,
) -> Outcome<(Model, Option<SigningKey>)> {
    store
        .write(move |store| {
            let (input, targets) = (input.clone(), targets.clone());
            Box::pin(async move {
                let Some(current) = store.lock_alert_rule(id).await? else {
                    return Ok(Err(Refusal::NotFound));
                };
                let Channels { webhooks, emails, secret } = store.decrypt_alert_channels(&current)?;
                let new_secret = targets.new_secret.then(|| SigningKey::generate(&mut rand::rng()));
                let channels = Channels {
                    webhooks: targets.webhooks.unwrap_or(webhooks),
                    emails: targets.emails.unwrap_or(emails),
                    secret: new_secret.clone().unwrap_or(secret),
                };
                let errors = [input.check(), channels.check()].concat();
                if !errors.is_empty() {
                    return Ok(Err(Refusal::InvalidFields(errors)));
                }
                let is_redefined = current.condition != input.condition || current.scope != input.scope;
                if is_redefined || !input.enabled {
                    store.end_lasting_alerts(id, author.at).await?;
                }
                let mut detail = rule_detail(&input, &channels);
                detail["new_secret"] = new_secret.is_some().into();
                let row = store.upsert_alert_rule(id, input, &channels, current.created_at, author).await?;
                store
                    .record_audit_entry(Entry::done(Action::UpdateAlertRule, Target::AlertRule(id), detail))
                    .await?;
                Ok(Ok((row, new_secret)))
            })
        })
        .await
}

/// The outcome of a request for test messages.
#[derive(Clone, Debug)]
pub(crate) enum TestOutcome {
    /// The messages were added to the outbox.
    Queued(Vec<entity::alert_delivery::Model>),
    /// The rule does not exist.
    NotFound,
    /// The rule was tested less than [`TEST_INTERVAL`] ago.
    TooSoon,
    /// The account tested [`MAX_TESTS`] rules less than [`TEST_INTERVAL`] ago.
    TooMany,
}

/// Adds a test message for each target of a rule to the outbox. Each test may send twenty messages to
/// receivers that did not ask for them, so a rule is tested at most once per [`TEST_INTERVAL`]. An account
/// tests at most [`MAX_TESTS`] rules in this time, since rules can be deleted and created again.
pub(crate) async fn test(
    store: &AccountStore,
    slug: &str,
    id: AlertRuleId,
    now: Timestamp,
) -> Result<TestOutcome, StoreError> {
    let slug = slug.to_owned();
    store
        .write(move |store| {
            let slug = slug.clone();
            Box::pin(async move {
                let Some(rule) = store.lock_alert_rule(id).await? else { return Ok(TestOutcome::NotFound) };
                let (action, target) = (Action::TestAlertRule, Target::AlertRule(id));
                let tested = store.action_targets_within(action, now, TEST_INTERVAL).await?;
                if tested.contains(&target.to_string()) {
                    return Ok(TestOutcome::TooSoon);
                }
                if tested.len() >= MAX_TESTS {
                    return Ok(TestOutcome::TooMany);
                }
                let deliveries = build_messages(&store, &slug, &rule, Event::Test, &[], now)?;
                let detail = json!({ "messages": deliveries.len() });
                store.record_audit_entry(Entry::done(action, target, detail)).await?;
                store.enqueue_deliveries(rule.id, deliveries, now).await.map(TestOutcome::Queued)
            })
        })
        .await
}
