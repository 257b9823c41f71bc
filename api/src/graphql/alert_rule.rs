//! Whom accounts want to be told of what.

use async_graphql::{Enum, ID, InputObject, Object, OneofObject, SimpleObject, Union};
use chrono::{DateTime, Utc};
use entity::{
    alert_rule::{Condition, Model, Scope, Whose},
    ids::{AlertRuleId, UserId},
};
use futures::future::try_join_all;

use super::{
    account::Account,
    cluster_tag::TagPattern,
    connection::{Connection, PageArguments, counted},
    error::{Alone, ApiError},
    flag::FlagKind,
    in_place::{Items, in_place},
    json::names,
    scope::AccountScope,
    user::User,
    user_error::{UserError, UserErrorCode},
};
use crate::{
    app::alert::{self, Refusal, Targets},
    domain::{
        alert::{Channels, MAX_RULES, RuleWish, Secret},
        tag::MAX_PATTERNS,
    },
    store::{AlertRuleSort, By},
};

/// More than anything costs: its billionths fit into a number.
const MAX_AMOUNT: f64 = 1e9;

/// Whom the account wants to be told of what.
pub(super) struct AlertRule {
    scope: AccountScope,
    row: Model,
}

impl AlertRule {
    fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    fn channels(&self) -> Result<Channels, ApiError> {
        Ok(self.scope.store.alert_channels(&self.row)?)
    }
}

/// Whom the account wants to be told of what. It is looked at twice a minute.
#[Object]
impl AlertRule {
    /// The rule as mutations name it.
    async fn identifier(&self) -> String {
        self.row.id.to_string()
    }

    /// What it is called.
    async fn name(&self) -> &str {
        &self.row.name
    }

    /// Whether it is looked at.
    async fn is_enabled(&self) -> bool {
        self.row.enabled
    }

    /// What is to be told.
    async fn condition(&self) -> AlertCondition {
        self.row.condition.clone().into()
    }

    /// Only of clusters of these users, as far as they are members; of all users' if null.
    async fn users(&self) -> Result<Option<Items<User>>, ApiError> {
        let Some(users) = &self.row.scope.users else { return Ok(None) };
        let found = try_join_all(users.iter().map(|user| User::find(&self.scope, *user))).await?;
        Ok(Some(Items(found.into_iter().flatten().collect())))
    }

    /// Only of clusters with at least one of these tags; of all if null.
    async fn tags(&self) -> Option<Vec<TagPattern>> {
        let tags = self.row.scope.tags.clone()?;
        Some(tags.into_iter().map(TagPattern::from).collect())
    }

    /// For how many seconds nothing is said again of what was just told.
    async fn cool_down_seconds(&self) -> i32 {
        i32::try_from(self.row.cool_down_seconds).unwrap_or(i32::MAX)
    }

    /// Whether it is told when it is over, too.
    async fn tells_end(&self) -> bool {
        self.row.tells_end
    }

    /// Which addresses are sent requests, without what may be secret of them. Null, with an error, when they cannot be
    /// decrypted.
    async fn webhooks(&self) -> Alone<Vec<String>> {
        let shown = |channels: Channels| channels.webhooks.iter().map(|to| Channels::shown(to)).collect();
        Some(self.channels().map(shown))
    }

    /// Which addresses are sent e-mails. Null, with an error, when they cannot be decrypted.
    async fn emails(&self) -> Alone<Vec<String>> {
        Some(self.channels().map(|channels| channels.emails))
    }

    /// When it was made, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// When it was last changed.
    async fn changed_at(&self) -> DateTime<Utc> {
        self.row.changed_at.0
    }

    /// Who changed it last; null when the user left the account.
    async fn changed_by(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.changed_by).await
    }
}

in_place! { AlertRule: identifier, name, is_enabled, cool_down_seconds, tells_end, created_at, changed_at }

/// What is to be told.
#[derive(Union)]
pub(super) enum AlertCondition {
    Flags(FlagsCondition),
    Failures(FailuresCondition),
    Cost(CostCondition),
    Idle(IdleCondition),
}

/// Something was noticed of a cluster, which the account has not muted.
#[derive(SimpleObject)]
pub(super) struct FlagsCondition {
    /// One of these kinds.
    kinds: Vec<FlagKind>,
}

/// Many tasks erred, those that only depend on one that did not counted.
#[derive(SimpleObject)]
pub(super) struct FailuresCondition {
    /// So many, or more.
    count: i32,
    /// Within so many seconds until now, by the clocks of schedulers.
    within_seconds: i32,
    /// Of what they are counted.
    of: AlertSubject,
}

/// Clusters cost much, by the account's rates and, for days without one, by the estimate.
#[derive(SimpleObject)]
pub(super) struct CostCondition {
    /// So much, or more, in units of the currency.
    amount: f64,
    /// The currency; what was paid in others does not count.
    currency: String,
    /// On so many days, today included, by UTC.
    days: i32,
    /// Of what it is summed.
    of: AlertSubject,
}

/// A cluster has had nothing to do.
#[derive(SimpleObject)]
pub(super) struct IdleCondition {
    /// For so many seconds, or more, when it last reported.
    for_seconds: i32,
}

/// Of what a number is counted, always within the users and tags of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Whose")]
pub(super) enum AlertSubject {
    /// Of all clusters together.
    Account,
    /// Of the clusters of each user.
    User,
    /// Of each cluster.
    Cluster,
}

names!(AlertSubject);

impl From<Condition> for AlertCondition {
    fn from(condition: Condition) -> Self {
        let int = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
        match condition {
            Condition::Flags(kinds) => {
                Self::Flags(FlagsCondition { kinds: kinds.into_iter().map(Into::into).collect() })
            }
            Condition::Failures { count, within_seconds, of } => Self::Failures(FailuresCondition {
                count: int(count),
                within_seconds: int(within_seconds),
                of: of.into(),
            }),
            #[expect(clippy::cast_precision_loss, reason = "it was a floating-point number")]
            Condition::Cost { nanos, currency, days, of } => Self::Cost(CostCondition {
                amount: nanos as f64 / 1e9,
                currency,
                days: int(days),
                of: of.into(),
            }),
            Condition::Idle { for_seconds } => Self::Idle(IdleCondition { for_seconds: int(for_seconds) }),
        }
    }
}

/// What is to be told: one of these.
#[derive(OneofObject)]
pub(super) enum AlertConditionInput {
    /// One of these kinds is noticed of a cluster, at most 20.
    Flags(Vec<FlagKind>),
    /// Many tasks err.
    Failures(FailuresConditionInput),
    /// Clusters cost much.
    Cost(CostConditionInput),
    /// A cluster has nothing to do.
    Idle(IdleConditionInput),
}

/// Many tasks err, those that only depend on one that did not counted.
#[derive(InputObject)]
pub(super) struct FailuresConditionInput {
    /// So many, or more.
    count: i32,
    /// Within so many seconds, 60 to 2,678,400.
    within_seconds: i32,
    /// Of what they are counted.
    #[graphql(default_with = "AlertSubject::Cluster")]
    of: AlertSubject,
}

/// Clusters cost much.
#[derive(InputObject)]
pub(super) struct CostConditionInput {
    /// So much, or more, in units of the currency: more than 0, and at most a thousand million.
    amount: f64,
    /// The currency: three capital letters, by ISO 4217.
    #[graphql(default = "USD")]
    currency: String,
    /// On so many days, today included, by UTC; 1 to 31.
    #[graphql(default = 1)]
    days: i32,
    /// Of what it is summed.
    #[graphql(default_with = "AlertSubject::Account")]
    of: AlertSubject,
}

/// A cluster has nothing to do.
#[derive(InputObject)]
pub(super) struct IdleConditionInput {
    /// For so many seconds, 60 to 2,678,400.
    for_seconds: i32,
}

/// What a rule is to be, all of it.
#[derive(InputObject)]
pub(super) struct AlertRuleInput {
    /// What it is called, 1 to 100 characters.
    name: String,
    /// Whether it is looked at.
    #[graphql(default = true)]
    is_enabled: bool,
    /// What is to be told.
    condition: AlertConditionInput,
    /// Only of clusters of these users, at most 100; of all users' if not given.
    users: Option<Vec<ID>>,
    /// Only of clusters with at least one of these tags, at most 20; of all if not given.
    tags: Option<Vec<TagPattern>>,
    /// For how many seconds nothing is said again of what was just told, 60 to 604,800.
    #[graphql(default = 3600)]
    cool_down_seconds: i32,
    /// Whether it is told when it is over, too.
    #[graphql(default = true)]
    tells_end: bool,
    /// Addresses that are sent requests, at most 10; those the rule has if not given. They are encrypted where they lie, and
    /// not shown again.
    webhooks: Option<Vec<String>>,
    /// Addresses that are sent e-mails, at most 10; those the rule has if not given.
    emails: Option<Vec<String>>,
}

/// The outcome of a change of a rule.
#[derive(SimpleObject)]
pub(super) struct AlertRulePayload {
    /// What requests are signed with from now on. It is shown here and never again; null when it is the one it was.
    secret: Option<String>,
    /// The rule as it is now; null when nothing was changed.
    alert_rule: Option<AlertRule>,
    /// What was wrong with the input; nothing is changed unless it is empty.
    user_errors: Vec<UserError>,
}

/// The outcome of `deleteAlertRule`.
#[derive(SimpleObject)]
pub(super) struct DeleteAlertRulePayload {
    /// The account without the rule.
    account: Account,
    /// What was wrong with the input; nothing is changed unless it is empty.
    user_errors: Vec<UserError>,
}

impl AlertRuleInput {
    fn check(self, scope: &AccountScope) -> Result<(RuleWish, Targets), ApiError> {
        let users =
            self.users.map(|users| users.iter().map(|id| User::identified(scope, "users", id)).collect());
        let users: Option<Vec<UserId>> = users.transpose()?;
        let pattern =
            |tag: &TagPattern| tag.check().map_err(|error| ApiError::invalid("tags", error.to_string()));
        // No more of them than are looked at, however many there are.
        let tags =
            self.tags.map(|tags| tags.iter().take(MAX_PATTERNS + 1).map(pattern).collect()).transpose()?;
        let wish = RuleWish {
            name: self.name.trim().to_owned(),
            enabled: self.is_enabled,
            condition: self.condition.check(),
            scope: Scope { users, tags },
            cool_down_seconds: self.cool_down_seconds.into(),
            tells_end: self.tells_end,
        };
        Ok((wish, Targets { webhooks: self.webhooks, emails: self.emails, new_secret: false }))
    }
}

impl AlertConditionInput {
    fn check(self) -> Condition {
        match self {
            Self::Flags(kinds) => {
                let mut kinds: Vec<_> = kinds.into_iter().map(Into::into).collect();
                kinds.sort_unstable();
                kinds.dedup();
                Condition::Flags(kinds)
            }
            Self::Failures(FailuresConditionInput { count, within_seconds, of }) => Condition::Failures {
                count: count.into(),
                within_seconds: within_seconds.into(),
                of: of.into(),
            },
            Self::Cost(CostConditionInput { amount, currency, days, of }) => {
                // What is none, or too much, becomes what the rule refuses.
                let within = (0.0..=MAX_AMOUNT).contains(&amount);
                #[expect(clippy::cast_possible_truncation, reason = "it has been looked at")]
                let nanos = if within { (amount * 1e9).round() as i64 } else { 0 };
                Condition::Cost { nanos, currency, days: days.into(), of: of.into() }
            }
            Self::Idle(IdleConditionInput { for_seconds }) => {
                Condition::Idle { for_seconds: for_seconds.into() }
            }
        }
    }
}

impl AlertRulePayload {
    fn of(scope: &AccountScope, outcome: Result<(Model, Option<Secret>), Refusal>) -> Result<Self, ApiError> {
        let refused = |user_errors| Self { secret: None, alert_rule: None, user_errors };
        Ok(match outcome {
            Ok((row, secret)) => Self {
                secret: secret.map(|secret| secret.reveal().to_owned()),
                alert_rule: Some(AlertRule::new(&scope.after_change(), row)),
                user_errors: Vec::new(),
            },
            Err(Refusal::NotFound) => return Err(ApiError::NotFound("alert rule")),
            Err(Refusal::TooMany) => {
                let message = format!("there can be {MAX_RULES} rules at the most");
                refused(vec![UserError::new("name", UserErrorCode::TooMany, message)])
            }
            Err(Refusal::Rules(wrong)) => {
                refused(wrong.iter().map(|(field, error)| UserError::of(field, error)).collect())
            }
        })
    }
}

/// The rule a mutation names.
pub(super) fn rule_of(identifier: &str) -> Result<AlertRuleId, ApiError> {
    identifier.parse().map_err(|_| ApiError::NotFound("alert rule"))
}

/// A page of the account's rules.
pub(super) async fn rules(
    scope: &AccountScope,
    page: PageArguments,
) -> Result<Connection<AlertRule>, ApiError> {
    let sort = AlertRuleSort::OldestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.alert_rule_page(sort, &request).await?;
    let store = scope.store.clone();
    let total = counted(move || {
        let store = store.clone();
        async move { store.alert_rule_count().await }
    });
    Ok(Connection::new(page, sort, |row| AlertRule::new(scope, row), total))
}

pub(super) async fn create(
    scope: &AccountScope,
    user: UserId,
    input: AlertRuleInput,
) -> Result<AlertRulePayload, ApiError> {
    let (wish, targets) = input.check(scope)?;
    let made = alert::create(&scope.store, wish, targets, By { user, at: scope.now.into() }).await?;
    AlertRulePayload::of(scope, made.map(|(row, secret)| (row, Some(secret))))
}

pub(super) async fn update(
    scope: &AccountScope,
    user: UserId,
    identifier: &str,
    input: AlertRuleInput,
    new_secret: bool,
) -> Result<AlertRulePayload, ApiError> {
    let rule = rule_of(identifier)?;
    let (wish, targets) = input.check(scope)?;
    let by = By { user, at: scope.now.into() };
    let changed = alert::update(&scope.store, rule, wish, Targets { new_secret, ..targets }, by).await?;
    AlertRulePayload::of(scope, changed)
}

pub(super) async fn delete(
    scope: &AccountScope,
    identifier: &str,
) -> Result<DeleteAlertRulePayload, ApiError> {
    if scope.store.delete_alert_rule(rule_of(identifier)?).await? {
        Ok(DeleteAlertRulePayload { account: Account(scope.after_change()), user_errors: Vec::new() })
    } else {
        Err(ApiError::NotFound("alert rule"))
    }
}
