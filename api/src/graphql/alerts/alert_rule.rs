//! The GraphQL types and mutations of alert rules: conditions on clusters, and the receivers of messages
//! about them.

use async_graphql::{Enum, ID, InputObject, Object, OneofObject, SimpleObject, Union};
use chrono::{DateTime, Utc};
use entity::{
    alert_rule::{AggregationScope, Condition, Model, Scope},
    ids::{AlertRuleId, UserId},
};
use futures::future::try_join_all;

use super::flag::FlagKind;
use crate::{
    app::alert::{self, Refusal, Targets},
    domain::{
        alert::{Channels, MAX_RULES, RuleInput, SigningKey},
        tag::MAX_PATTERNS,
    },
    graphql::{
        access::user::User,
        accounts::account::Account,
        clusters::cluster_tag::TagPattern,
        engine::{
            connection::{Connection, PageArguments, total_count_by},
            error::{ApiError, NullOnError},
            id::GlobalId,
            json::write_enums_by_name,
            projection::{InlineList, inline_fields},
            scope::AccountScope,
            user_error::{UserError, UserErrorCode},
        },
    },
    store::{AlertRuleSort, ChangeAuthor},
};

/// The maximum amount of money in a condition. Its billionths fit into an `i64`.
const MAX_AMOUNT: f64 = 1e9;

/// A rule by which the account raises alerts.
pub(crate) struct AlertRule {
    scope: AccountScope,
    row: Model,
}

impl AlertRule {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    fn decrypt_channels(&self) -> Result<Channels, ApiError> {
        Ok(self.scope.store.decrypt_alert_channels(&self.row)?)
    }
}

/// A rule by which the account raises alerts and sends messages about them. Rules are evaluated twice a
/// minute.
#[Object]
impl AlertRule {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::AlertRule(self.scope.account.id, self.row.id).into()
    }

    /// The identifier of the rule, as used in mutations.
    async fn identifier(&self) -> String {
        self.row.id.to_string()
    }

    /// The name of the rule.
    async fn name(&self) -> &str {
        &self.row.name
    }

    /// True if the rule is evaluated.
    async fn is_enabled(&self) -> bool {
        self.row.enabled
    }

    /// The condition that raises an alert.
    async fn condition(&self) -> AlertCondition {
        self.row.condition.clone().into()
    }

    /// The users whose clusters are watched, without those who left the account. Null for all users.
    async fn users(&self) -> Result<Option<InlineList<User>>, ApiError> {
        let Some(users) = &self.row.scope.users else { return Ok(None) };
        let found = try_join_all(users.iter().map(|user| User::find(&self.scope, *user))).await?;
        Ok(Some(InlineList(found.into_iter().flatten().collect())))
    }

    /// The tags of the watched clusters: a cluster is watched if it has one of them. Null for all clusters.
    async fn tags(&self) -> Option<Vec<TagPattern>> {
        let tags = self.row.scope.tags.clone()?;
        Some(tags.into_iter().map(TagPattern::from).collect())
    }

    /// The minimum time between two messages about the start of alerts for the same account, user or
    /// cluster, in seconds. Messages about the end of an alert are not delayed. If the condition is met again
    /// within this time after an alert ended, the same alert continues.
    async fn cool_down_seconds(&self) -> i32 {
        i32::try_from(self.row.cool_down_seconds).unwrap_or(i32::MAX)
    }

    /// True if a message is also sent when an alert ends.
    async fn sends_resolved(&self) -> bool {
        self.row.tells_end
    }

    /// The URLs that messages are sent to, without the parts that may be secret. Null, with the error
    /// code `KEY_MISSING` or `DAMAGED`, if they cannot be decrypted.
    async fn webhooks(&self) -> NullOnError<Vec<String>> {
        let redact = |channels: Channels| {
            channels.webhooks.iter().map(|webhook| Channels::redact_webhook(webhook)).collect()
        };
        Some(self.decrypt_channels().map(redact))
    }

    /// The e-mail addresses that messages are sent to. Null, with the error code `KEY_MISSING` or
    /// `DAMAGED`, if they cannot be decrypted.
    async fn emails(&self) -> NullOnError<Vec<String>> {
        Some(self.decrypt_channels().map(|channels| channels.emails))
    }

    /// The time at which the rule was created, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// The time of the last change, by the server's clock.
    async fn changed_at(&self) -> DateTime<Utc> {
        self.row.changed_at.0
    }

    /// The user who made the last change. Null if the user left the account.
    async fn changed_by(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.changed_by).await
    }
}

inline_fields! { AlertRule: id, identifier, name, is_enabled, cool_down_seconds, sends_resolved, created_at, changed_at }

/// A condition that raises an alert.
#[derive(Union)]
pub(crate) enum AlertCondition {
    Flags(FlagsCondition),
    Failures(FailuresCondition),
    Cost(CostCondition),
    Idle(IdleCondition),
    QuotaNears(QuotaNearsCondition),
}

/// A flag was detected on a cluster, and the account has not muted it.
#[derive(SimpleObject)]
pub(crate) struct FlagsCondition {
    /// The kinds of flag, any one of which raises an alert.
    kinds: Vec<FlagKind>,
}

/// A number of tasks failed. Tasks that only depend on a failed one do not count.
#[derive(SimpleObject)]
pub(crate) struct FailuresCondition {
    /// The minimum number of failed tasks.
    count: i32,
    /// The period up to now in which failures count, in seconds, by the schedulers' clocks.
    within_seconds: i32,
    /// The group for which failures are counted.
    of: AlertSubject,
}

/// Clusters cost an amount of money, by the account's rates; days without a rate are estimated.
#[derive(SimpleObject)]
pub(crate) struct CostCondition {
    /// The minimum amount, in units of the currency.
    amount: f64,
    /// The currency. Costs in other currencies do not count.
    currency: String,
    /// The number of days that are summed, including today, in UTC.
    days: i32,
    /// The group for which costs are summed.
    of: AlertSubject,
}

/// A cluster was idle.
#[derive(SimpleObject)]
pub(crate) struct IdleCondition {
    /// The minimum time without work as of the last report, in seconds.
    for_seconds: i32,
}

/// The use of one of the account's quotas reached a part of its limit, see `Account.quota`. The users
/// and tags of the rule do not apply.
#[derive(SimpleObject)]
pub(crate) struct QuotaNearsCondition {
    /// The minimum use of a quota, in percent.
    percent: i32,
}

/// The group for which a value is computed, always restricted to the users and tags of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "AggregationScope")]
pub(crate) enum AlertSubject {
    /// All clusters together.
    Account,
    /// The clusters of each user.
    User,
    /// Each cluster.
    Cluster,
}

write_enums_by_name!(AlertSubject);

impl From<Condition> for AlertCondition {
    fn from(condition: Condition) -> Self {
        let to_int = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
        match condition {
            Condition::Flags(kinds) => {
                Self::Flags(FlagsCondition { kinds: kinds.into_iter().map(Into::into).collect() })
            }
            Condition::Failures { count, within_seconds, of } => Self::Failures(FailuresCondition {
                count: to_int(count),
                within_seconds: to_int(within_seconds),
                of: of.into(),
            }),
            #[expect(
                clippy::cast_precision_loss,
                reason = "the value was stored from a floating-point number"
            )]
            Condition::Cost { nanos, currency, days, of } => Self::Cost(CostCondition {
                amount: nanos as f64 / 1e9,
                currency,
                days: to_int(days),
                of: of.into(),
            }),
            Condition::Idle { for_seconds } => Self::Idle(IdleCondition { for_seconds: to_int(for_seconds) }),
            Condition::QuotaNears { percent } => {
                Self::QuotaNears(QuotaNearsCondition { percent: to_int(percent) })
            }
        }
    }
}

/// The condition that raises an alert: exactly one of these fields.
#[derive(OneofObject)]
pub(crate) enum AlertConditionInput {
    /// A flag of one of these kinds is detected on a cluster, at most 20 kinds.
    Flags(Vec<FlagKind>),
    /// A number of tasks failed.
    Failures(FailuresConditionInput),
    /// Clusters cost an amount of money.
    Cost(CostConditionInput),
    /// A cluster is idle.
    Idle(IdleConditionInput),
    /// The use of one of the account's quotas reaches a part of its limit.
    QuotaNears(QuotaNearsConditionInput),
}

/// A number of tasks failed. Tasks that only depend on a failed one do not count.
#[derive(InputObject)]
pub(crate) struct FailuresConditionInput {
    /// The minimum number of failed tasks, 1 to 1,000,000,000.
    count: i32,
    /// The period up to now in which failures count, in seconds, 60 to 2,678,400.
    within_seconds: i32,
    /// The group for which failures are counted.
    #[graphql(default_with = "AlertSubject::Cluster")]
    of: AlertSubject,
}

/// Clusters cost an amount of money.
#[derive(InputObject)]
pub(crate) struct CostConditionInput {
    /// The minimum amount, in units of the currency. More than 0, at most 1,000,000,000.
    amount: f64,
    /// The currency, as an ISO 4217 code: three capital letters.
    #[graphql(default = "USD")]
    currency: String,
    /// The number of days that are summed, including today, in UTC, 1 to 31.
    #[graphql(default = 1)]
    days: i32,
    /// The group for which costs are summed.
    #[graphql(default_with = "AlertSubject::Account")]
    of: AlertSubject,
}

/// A cluster is idle.
#[derive(InputObject)]
pub(crate) struct IdleConditionInput {
    /// The minimum time without work, in seconds, 60 to 2,678,400.
    for_seconds: i32,
}

/// The use of one of the account's quotas reaches a part of its limit.
#[derive(InputObject)]
pub(crate) struct QuotaNearsConditionInput {
    /// The minimum use of a quota, in percent, 1 to 100.
    #[graphql(default = 80)]
    percent: i32,
}

/// All properties of an alert rule.
#[derive(InputObject)]
pub(crate) struct AlertRuleInput {
    /// The name of the rule, 1 to 100 characters.
    name: String,
    /// True if the rule is evaluated.
    #[graphql(default = true)]
    is_enabled: bool,
    /// The condition that raises an alert.
    condition: AlertConditionInput,
    /// The users whose clusters are watched, at most 100. Null for all users.
    users: Option<Vec<ID>>,
    /// The tags of the watched clusters, at most 20: a cluster is watched if it has one of them. Null for all
    /// clusters.
    tags: Option<Vec<TagPattern>>,
    /// The minimum time between two messages about the start of alerts for the same account, user or
    /// cluster, in seconds, 60 to 604,800. Messages about the end of an alert are not delayed. If the
    /// condition is met again within this time after an alert ended, the same alert continues.
    #[graphql(default = 3600)]
    cool_down_seconds: i32,
    /// True if a message is also sent when an alert ends.
    #[graphql(default = true)]
    sends_resolved: bool,
    /// The URLs that messages are sent to, at most 10. Null keeps those of the rule. They are stored
    /// encrypted, and not returned in full again.
    webhooks: Option<Vec<String>>,
    /// The e-mail addresses that messages are sent to, at most 10. Null keeps those of the rule.
    emails: Option<Vec<String>>,
}

/// The outcome of `createAlertRule` and `updateAlertRule`.
#[derive(SimpleObject)]
pub(crate) struct AlertRulePayload {
    /// The new secret that signs the webhook requests. It is returned here only. Null if the secret was
    /// not changed.
    secret: Option<String>,
    /// The rule after the change. Null if nothing was changed.
    alert_rule: Option<AlertRule>,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

/// The outcome of `deleteAlertRule`.
#[derive(SimpleObject)]
pub(crate) struct DeleteAlertRulePayload {
    /// The account without the rule.
    account: Account,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

impl AlertRuleInput {
    fn check(self, scope: &AccountScope) -> Result<(RuleInput, Targets), ApiError> {
        let users =
            self.users.map(|users| users.iter().map(|id| User::parse_id(scope, "users", id)).collect());
        let users: Option<Vec<UserId>> = users.transpose()?;
        let check_tag =
            |tag: &TagPattern| tag.check().map_err(|error| ApiError::invalid("tags", error.to_string()));
        // One item more than the limit is enough for the rule's check to refuse the list.
        let tags =
            self.tags.map(|tags| tags.iter().take(MAX_PATTERNS + 1).map(check_tag).collect()).transpose()?;
        let rule = RuleInput {
            name: self.name.trim().to_owned(),
            enabled: self.is_enabled,
            condition: self.condition.into_condition(),
            scope: Scope { users, tags },
            cool_down_seconds: self.cool_down_seconds.into(),
            sends_resolved: self.sends_resolved,
        };
        Ok((rule, Targets { webhooks: self.webhooks, emails: self.emails, new_secret: false }))
    }
}

impl AlertConditionInput {
    fn into_condition(self) -> Condition {
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
                // An amount out of range becomes 0, which the rule's check refuses.
                let is_in_range = (0.0..=MAX_AMOUNT).contains(&amount);
                #[expect(clippy::cast_possible_truncation, reason = "the value was checked to be in range")]
                let nanos = if is_in_range { (amount * 1e9).round() as i64 } else { 0 };
                Condition::Cost { nanos, currency, days: days.into(), of: of.into() }
            }
            Self::Idle(IdleConditionInput { for_seconds }) => {
                Condition::Idle { for_seconds: for_seconds.into() }
            }
            Self::QuotaNears(QuotaNearsConditionInput { percent }) => {
                Condition::QuotaNears { percent: percent.into() }
            }
        }
    }
}

impl AlertRulePayload {
    fn from_outcome(
        scope: &AccountScope,
        outcome: Result<(Model, Option<SigningKey>), Refusal>,
    ) -> Result<Self, ApiError> {
        let refused = |user_errors| Self { secret: None, alert_rule: None, user_errors };
        Ok(match outcome {
            Ok((row, secret)) => Self {
                secret: secret.map(|secret| secret.reveal().to_owned()),
                alert_rule: Some(AlertRule::new(&scope.with_empty_caches(), row)),
                user_errors: Vec::new(),
            },
            Err(Refusal::NotFound) => return Err(ApiError::NotFound("alert rule")),
            Err(Refusal::TooMany) => {
                let message = format!("an account can have at most {MAX_RULES} rules");
                refused(vec![UserError::new("name", UserErrorCode::TooMany, message)])
            }
            Err(Refusal::InvalidFields(errors)) => {
                refused(errors.iter().map(|(field, error)| UserError::from_rule(field, error)).collect())
            }
        })
    }
}

/// Parses the identifier of a rule in a mutation.
pub(crate) fn parse_rule_id(identifier: &str) -> Result<AlertRuleId, ApiError> {
    identifier.parse().map_err(|_| ApiError::NotFound("alert rule"))
}

/// Returns a page of the account's rules.
pub(crate) async fn load_rules(
    scope: &AccountScope,
    page: PageArguments,
) -> Result<Connection<AlertRule>, ApiError> {
    let sort = AlertRuleSort::OldestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.alert_rule_page(sort, &request).await?;
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let store = store.clone();
        async move { store.alert_rule_count().await }
    });
    Ok(Connection::new(page, sort, |row| AlertRule::new(scope, row), total))
}

pub(crate) async fn create(
    scope: &AccountScope,
    user: UserId,
    input: AlertRuleInput,
) -> Result<AlertRulePayload, ApiError> {
    let (rule, targets) = input.check(scope)?;
    let created =
        alert::create(&scope.store, rule, targets, ChangeAuthor { user, at: scope.now.into() }).await?;
    AlertRulePayload::from_outcome(scope, created.map(|(row, secret)| (row, Some(secret))))
}

pub(crate) async fn update(
    scope: &AccountScope,
    user: UserId,
    identifier: &str,
    input: AlertRuleInput,
    new_secret: bool,
) -> Result<AlertRulePayload, ApiError> {
    let id = parse_rule_id(identifier)?;
    let (rule, targets) = input.check(scope)?;
    let author = ChangeAuthor { user, at: scope.now.into() };
    let changed = alert::update(&scope.store, id, rule, Targets { new_secret, ..targets }, author).await?;
    AlertRulePayload::from_outcome(scope, changed)
}

pub(crate) async fn delete(
    scope: &AccountScope,
    identifier: &str,
) -> Result<DeleteAlertRulePayload, ApiError> {
    if scope.store.delete_alert_rule(parse_rule_id(identifier)?).await? {
        Ok(DeleteAlertRulePayload { account: Account(scope.with_empty_caches()), user_errors: Vec::new() })
    } else {
        Err(ApiError::NotFound("alert rule"))
    }
}
