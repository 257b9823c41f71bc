//! Telling accounts what they want to be told: their rules, and rounds that look whether they hold.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use entity::{
    Timestamp,
    alert_delivery::{Channel, Event},
    alert_rule::{Condition, Model},
    audit_entry::Action,
    ids::{AlertDeliveryId, AlertId, AlertRuleId, ClusterId, UserId},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    domain::{
        alert::{
            AlertError, Channels, Decision, Episode, Item, MAX_RULES, Message, Phase, RuleWish, Secret,
            Subject, decide, sentence, unit, whose,
        },
        audit::{Entry, Target},
    },
    error::Chain,
    store::{AccountStore, By, Letter, NewDelivery, Store, StoreError},
};

/// Costs change slowly, and are the most work to look at: every so many milliseconds.
const COSTS_EVERY: i64 = 5 * 60 * 1_000;

/// Looks at rules again and again.
#[derive(Clone)]
pub struct Alerts {
    store: Store,
    /// When costs are looked at again, by rule.
    costs: Arc<Mutex<HashMap<AlertRuleId, i64>>>,
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Messages that were written.
    pub messages: u64,
    /// Rules that could not be looked at. They are again in the next round.
    pub failed: u64,
}

impl Alerts {
    /// Rules are those of `store`.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, costs: Arc::default() }
    }

    /// Looks at all rules of all accounts.
    ///
    /// # Errors
    /// When it cannot be found out which accounts have some.
    #[tracing::instrument(name = "app.alert.round", skip_all)]
    pub async fn round(&self, now: Timestamp) -> Result<Told, StoreError> {
        let mut told = Told::default();
        for account in self.store.system().accounts_with_alerts().await? {
            let Some(slug) = self.store.system().account_slug(account).await? else { continue };
            let store = self.store.for_work_of(account);
            for rule in store.enabled_alert_rules().await? {
                if !self.is_due(&rule, now) {
                    continue;
                }
                match look_at(&store, &slug, rule, now).await {
                    Ok(messages) => told.messages += messages,
                    // A rule that cannot be looked at must not keep others from it.
                    Err(error) => {
                        told.failed += 1;
                        tracing::warn!(%account, error = %Chain(&error), "an alert rule was not looked at");
                    }
                }
            }
        }
        Ok(told)
    }

    fn is_due(&self, rule: &Model, now: Timestamp) -> bool {
        let Condition::Cost { .. } = rule.condition else { return true };
        let now = now.timestamp_millis();
        let mut costs = self.costs.lock().unwrap_or_else(PoisonError::into_inner);
        let due = costs.get(&rule.id).is_none_or(|next| *next <= now);
        let is_new = now - rule.changed_at.timestamp_millis() < COSTS_EVERY;
        if due {
            costs.retain(|_, next| *next > now);
            costs.insert(rule.id, now + COSTS_EVERY);
        }
        due || is_new
    }
}

/// Looks whether a rule holds, and writes what is to be told of it together with the messages that tell it.
async fn look_at(store: &AccountStore, slug: &str, rule: Model, now: Timestamp) -> Result<u64, StoreError> {
    let holds = store.holding(&rule, now).await?;
    let (slug, rule, holds) = (slug.to_owned(), Arc::new(rule), Arc::new(holds));
    store
        .write(move |store| {
            let (slug, rule, holds) = (slug.clone(), Arc::clone(&rule), Arc::clone(&holds));
            Box::pin(async move {
                // Others who look at the same rule wait here, and find what was told.
                let locked = store.lock_alert_rule(rule.id).await?;
                if locked.as_ref() != Some(&*rule) {
                    return Ok(0);
                }
                let (now_ms, rest) = (now.timestamp_millis(), rule.cool_down_seconds * 1_000);
                let known = store.episodes(rule.id, now_ms - rest).await?;
                let mut decision = decide(now_ms, rest, &known, &holds);
                store.record_alerts(rule.id, &mut decision, || AlertId(Uuid::now_v7())).await?;
                let alerts = items(&store, &rule, &decision).await?;
                if alerts.is_empty() {
                    return Ok(0);
                }
                let deliveries = letters(&store, &slug, &rule, Event::Alerts, &alerts, now)?;
                Ok(store.add_deliveries(rule.id, deliveries, now).await?.len() as u64)
            })
        })
        .await
}

/// What is to be told, with the names of what it is about.
async fn items(store: &AccountStore, rule: &Model, decision: &Decision) -> Result<Vec<Item>, StoreError> {
    let ended: &[usize] = if rule.tells_end { &decision.ended } else { &[] };
    let of = |places: &[usize], phase| {
        places.iter().map(|place| (decision.changed[*place].clone(), phase)).collect::<Vec<_>>()
    };
    let told: Vec<(Episode, Phase)> =
        [of(&decision.began, Phase::Firing), of(ended, Phase::Resolved)].concat();
    if told.is_empty() {
        return Ok(Vec::new());
    }
    let clusters: Vec<ClusterId> = told.iter().filter_map(|(episode, _)| episode.subject.cluster()).collect();
    let users: Vec<UserId> = told
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
        let whose = whose(episode.subject, &rule.scope, name);
        let time = |ms| chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default();
        Some(Item {
            id: episode.id?,
            phase,
            since: time(episode.since),
            until: (phase == Phase::Resolved).then(|| time(episode.ended_key)),
            value: episode.value,
            unit: unit(&rule.condition, flag),
            text: sentence(&rule.condition, flag, episode.value, &whose),
            cluster,
            user,
            flag,
        })
    };
    Ok(told.into_iter().filter_map(item).collect())
}

/// The messages that tell something, one for each address of a rule.
fn letters(
    store: &AccountStore,
    slug: &str,
    rule: &Model,
    event: Event,
    alerts: &[Item],
    now: Timestamp,
) -> Result<Vec<NewDelivery>, StoreError> {
    let channels = store.alert_channels(rule)?;
    let targets = [(Channel::Webhook, channels.webhooks), (Channel::Email, channels.emails)];
    let targets = targets.into_iter().flat_map(|(channel, to)| to.into_iter().map(move |to| (channel, to)));
    let delivery = |(channel, to): (Channel, String)| {
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
            Channel::Webhook => (Channels::shown(&to), message.json().to_string()),
            Channel::Email => (to.clone(), message.text()),
        };
        NewDelivery { id, channel, event, target, letter: Letter { to, title: message.title(), body } }
    };
    Ok(targets.map(delivery).collect())
}

/// Why a rule is not made or changed.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// There is none.
    NotFound,
    /// It cannot be so: the fields, and what is wrong with each.
    Rules(Vec<(&'static str, AlertError)>),
    /// The account has as many as it may.
    TooMany,
}

/// Where a rule is to send what it tells; what is not given stays as it is.
#[derive(Clone)]
pub(crate) struct Targets {
    pub(crate) webhooks: Option<Vec<String>>,
    pub(crate) emails: Option<Vec<String>>,
    pub(crate) new_secret: bool,
}

/// What of a rule is written down. Addresses may be secrets, and are not.
fn detail(wish: &RuleWish, channels: &Channels) -> Value {
    json!({
        "name": wish.name,
        "enabled": wish.enabled,
        "condition": wish.condition,
        "webhooks": channels.webhooks.len(),
        "emails": channels.emails.len(),
    })
}

type Outcome<T> = Result<Result<T, Refusal>, StoreError>;

/// Makes a rule. The answer is the only place its secret is ever in.
pub(crate) async fn create(
    store: &AccountStore,
    wish: RuleWish,
    targets: Targets,
    by: By,
) -> Outcome<(Model, Secret)> {
    let channels = Channels {
        webhooks: targets.webhooks.unwrap_or_default(),
        emails: targets.emails.unwrap_or_default(),
        secret: Secret::generate(&mut rand::rng()),
    };
    let wrong = [wish.check(), channels.check()].concat();
    if !wrong.is_empty() {
        return Ok(Err(Refusal::Rules(wrong)));
    }
    let secret = channels.secret.clone();
    let row = store.write(move |store| {
        let (wish, channels) = (wish.clone(), channels.clone());
        Box::pin(async move {
            if store.alert_rule_count().await? >= MAX_RULES {
                return Ok(None);
            }
            let (id, detail) = (AlertRuleId(Uuid::now_v7()), detail(&wish, &channels));
            let row = store.put_alert_rule(id, wish, &channels, by.at, by).await?;
            store.audit(Entry::done(Action::CreateAlertRule, Target::AlertRule(id), detail)).await?;
            Ok(Some(row))
        })
    });
    Ok(row.await?.map(|row| (row, secret)).ok_or(Refusal::TooMany))
}

/// Changes a rule. What it told is over, without a word, if it tells something else now or nothing any more.
pub(crate) async fn update(
    store: &AccountStore,
    id: AlertRuleId,
    wish: RuleWish,
    targets: Targets,
    by: By,
) -> Outcome<(Model, Option<Secret>)> {
    store
        .write(move |store| {
            let (wish, targets) = (wish.clone(), targets.clone());
            Box::pin(async move {
                let Some(before) = store.lock_alert_rule(id).await? else {
                    return Ok(Err(Refusal::NotFound));
                };
                let Channels { webhooks, emails, secret } = store.alert_channels(&before)?;
                let new_secret = targets.new_secret.then(|| Secret::generate(&mut rand::rng()));
                let channels = Channels {
                    webhooks: targets.webhooks.unwrap_or(webhooks),
                    emails: targets.emails.unwrap_or(emails),
                    secret: new_secret.clone().unwrap_or(secret),
                };
                let wrong = [wish.check(), channels.check()].concat();
                if !wrong.is_empty() {
                    return Ok(Err(Refusal::Rules(wrong)));
                }
                let tells_other = before.condition != wish.condition || before.scope != wish.scope;
                if tells_other || !wish.enabled {
                    store.end_alerts_of(id, by.at).await?;
                }
                let mut detail = detail(&wish, &channels);
                detail["new_secret"] = new_secret.is_some().into();
                let row = store.put_alert_rule(id, wish, &channels, before.created_at, by).await?;
                store.audit(Entry::done(Action::UpdateAlertRule, Target::AlertRule(id), detail)).await?;
                Ok(Ok((row, new_secret)))
            })
        })
        .await
}

/// Writes a message to each address of a rule, to try whether it arrives.
pub(crate) async fn test(
    store: &AccountStore,
    slug: &str,
    id: AlertRuleId,
    now: Timestamp,
) -> Outcome<Vec<entity::alert_delivery::Model>> {
    let slug = slug.to_owned();
    store
        .write(move |store| {
            let slug = slug.clone();
            Box::pin(async move {
                let Some(rule) = store.lock_alert_rule(id).await? else { return Ok(Err(Refusal::NotFound)) };
                let deliveries = letters(&store, &slug, &rule, Event::Test, &[], now)?;
                let detail = json!({ "messages": deliveries.len() });
                store.audit(Entry::done(Action::TestAlertRule, Target::AlertRule(id), detail)).await?;
                store.add_deliveries(rule.id, deliveries, now).await.map(Ok)
            })
        })
        .await
}
