//! Alert rules of accounts and their limits.

use std::{fmt, ops::RangeInclusive};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use entity::{
    alert_rule::{Condition, Scope},
    ids::UserId,
    json_columns::TagPattern,
};
use rand::Rng;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::domain::{cost::Currency, outgoing_url::is_plain_http_url, tag::MAX_PATTERNS};

/// The largest number of rules of one account. Every rule is evaluated repeatedly.
pub const MAX_RULES: u64 = 50;

/// The largest number of addresses of one kind in a rule.
pub const MAX_TARGETS: usize = 10;

/// The largest length of a name, in characters.
const MAX_NAME: usize = 100;

/// The largest length of an address, in bytes.
const MAX_ADDRESS: usize = 2_048;

/// The largest number of users in a rule's scope.
const MAX_USERS: usize = 100;

/// The accepted periods for counting errors and for idleness, in seconds: a minute to 31 days.
const PERIOD_SECONDS: RangeInclusive<i64> = 60..=31 * 86_400;

/// The accepted shares of a quota, in percent.
const PERCENT: RangeInclusive<i64> = 1..=100;

/// The accepted cooldowns, in seconds: a minute to a week.
const COOLDOWN_SECONDS: RangeInclusive<i64> = 60..=7 * 86_400;

/// The accepted counts; the constant below holds the accepted amounts of money.
const COUNTS: RangeInclusive<i64> = 1..=1_000_000_000;
const NANOS: RangeInclusive<i64> = 1..=1_000_000_000_000_000_000;

/// The accepted numbers of days over which costs are summed.
const DAYS: RangeInclusive<i64> = 1..=31;

/// The properties of a rule to create or change.
#[derive(Clone, Debug)]
pub struct RuleInput {
    /// The name.
    pub name: String,
    /// True if the rule is evaluated.
    pub enabled: bool,
    /// The condition that raises an alert.
    pub condition: Condition,
    /// The clusters to which it applies.
    pub scope: Scope,
    /// The time in which a repeated alert is not sent again, in seconds.
    pub cool_down_seconds: i64,
    /// True if the end of an alert is sent as well.
    pub sends_resolved: bool,
}

/// The receivers of a rule's alerts, with the signing key. The type has no `Debug`, because addresses
/// contain secrets too.
#[derive(Clone, Serialize, Deserialize)]
pub struct Channels {
    /// The URLs of webhooks.
    pub webhooks: Vec<String>,
    /// The e-mail addresses.
    pub emails: Vec<String>,
    /// The key that signs webhook requests.
    pub secret: SigningKey,
}

/// A key that signs a rule's webhook requests. Its `Debug` output is blank.
#[derive(Clone, Serialize, Deserialize)]
pub struct SigningKey(String);

impl SigningKey {
    /// Creates a key of 256 random bits.
    pub fn generate(random: &mut impl Rng) -> Self {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        Self(format!("whsec_{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Returns the key, to display it once and to sign with it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The reason for rejecting a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlertError {
    /// The name is not valid.
    #[error("must have 1 to {MAX_NAME} characters, none of them a control character")]
    Name,
    /// The list of kinds is empty.
    #[error("must be at least one kind")]
    NoKinds,
    /// The count is out of range.
    #[error("must be from {} to {}", COUNTS.start(), COUNTS.end())]
    Count,
    /// The period is out of range.
    #[error("must be from {} to {} seconds", PERIOD_SECONDS.start(), PERIOD_SECONDS.end())]
    Time,
    /// The amount is out of range.
    #[error("must be more than 0 and at most a thousand million")]
    Amount,
    /// The text is not a currency.
    #[error("must be three capital letters, as in USD")]
    Currency,
    /// The number of days is out of range.
    #[error("must be from {} to {} days", DAYS.start(), DAYS.end())]
    Days,
    /// The percentage is out of range.
    #[error("must be from {} to {} percent", PERCENT.start(), PERCENT.end())]
    Percent,
    /// The cooldown is out of range.
    #[error("must be from {} to {} seconds", COOLDOWN_SECONDS.start(), COOLDOWN_SECONDS.end())]
    CoolDown,
    /// The scope has too many users.
    #[error("must be at most {MAX_USERS}")]
    Users,
    /// The scope has too many tags.
    #[error("must be at most {MAX_PATTERNS}")]
    Tags,
    /// The rule has no receiver.
    #[error("needs a webhook or an e-mail address")]
    NoChannel,
    /// The rule has too many addresses of one kind.
    #[error("must be at most {MAX_TARGETS}")]
    TooManyTargets,
    /// The text is not a URL of a webhook.
    #[error(
        "must be an address beginning with https://, or http:// where the operator allows it, without a user or password"
    )]
    Webhook,
    /// The text is not an e-mail address.
    #[error("must be an e-mail address, such as ada@example.com")]
    Email,
}

impl RuleInput {
    /// Returns every violation with the name of its field.
    #[must_use]
    pub fn check(&self) -> Vec<(&'static str, AlertError)> {
        let mut errors = Vec::new();
        let mut require = |is_valid: bool, field, error| {
            if !is_valid {
                errors.push((field, error));
            }
        };
        let name = self.name.chars().count();
        require(
            (1..=MAX_NAME).contains(&name) && !self.name.chars().any(char::is_control),
            "name",
            AlertError::Name,
        );
        match &self.condition {
            Condition::Flags(kinds) => require(!kinds.is_empty(), "flags", AlertError::NoKinds),
            Condition::Failures { count, within_seconds, .. } => {
                require(COUNTS.contains(count), "count", AlertError::Count);
                require(PERIOD_SECONDS.contains(within_seconds), "withinSeconds", AlertError::Time);
            }
            Condition::Cost { nanos, currency, days, .. } => {
                require(NANOS.contains(nanos), "amount", AlertError::Amount);
                require(Currency::parse(currency).is_some(), "currency", AlertError::Currency);
                require(DAYS.contains(days), "days", AlertError::Days);
            }
            Condition::Idle { for_seconds } => {
                require(PERIOD_SECONDS.contains(for_seconds), "forSeconds", AlertError::Time);
            }
            Condition::QuotaNears { percent } => {
                require(PERCENT.contains(percent), "percent", AlertError::Percent);
            }
        }
        let is_within_limit = |users: &Vec<UserId>| users.len() <= MAX_USERS;
        require(self.scope.users.as_ref().is_none_or(is_within_limit), "users", AlertError::Users);
        let is_within_limit = |tags: &Vec<TagPattern>| tags.len() <= MAX_PATTERNS;
        require(self.scope.tags.as_ref().is_none_or(is_within_limit), "tags", AlertError::Tags);
        require(COOLDOWN_SECONDS.contains(&self.cool_down_seconds), "coolDownSeconds", AlertError::CoolDown);
        errors
    }
}

impl Channels {
    /// Returns every violation with the name of its field.
    #[must_use]
    pub fn check(&self) -> Vec<(&'static str, AlertError)> {
        let mut errors = Vec::new();
        if self.webhooks.is_empty() && self.emails.is_empty() {
            errors.push(("webhooks", AlertError::NoChannel));
        }
        for (field, targets, error, is_valid) in [
            ("webhooks", &self.webhooks, AlertError::Webhook, is_webhook as fn(&str) -> bool),
            ("emails", &self.emails, AlertError::Email, is_email),
        ] {
            if targets.len() > MAX_TARGETS {
                errors.push((field, AlertError::TooManyTargets));
            } else if !targets.iter().all(|target| is_valid(target)) {
                errors.push((field, error));
            }
        }
        errors
    }

    /// Returns the public part of a webhook's URL. Its path may contain a secret.
    #[must_use]
    pub fn redact_webhook(webhook: &str) -> String {
        let url = webhook.parse::<Url>().ok();
        let origin = url.map(|url| url.origin().ascii_serialization());
        origin.map_or_else(|| "…".to_owned(), |origin| format!("{origin}/…"))
    }
}

fn is_webhook(address: &str) -> bool {
    address.len() <= MAX_ADDRESS && address.parse::<Url>().is_ok_and(|url| is_plain_http_url(&url))
}

fn is_email(address: &str) -> bool {
    address.len() <= 254 && address.parse::<lettre::Address>().is_ok()
}

#[cfg(test)]
mod tests {
    use entity::alert_rule::AggregationScope;

    use super::*;

    fn rule_input(condition: Condition) -> RuleInput {
        RuleInput {
            name: "Failures at night".to_owned(),
            enabled: true,
            condition,
            scope: Scope::default(),
            cool_down_seconds: 3_600,
            sends_resolved: true,
        }
    }

    #[test]
    fn rules_have_bounds() {
        use AlertError::{Amount, Count, Currency, Days, NoKinds, Percent, Time};
        let cost = |nanos, currency: &str, days| Condition::Cost {
            nanos,
            currency: currency.to_owned(),
            days,
            of: AggregationScope::User,
        };
        let failures = |count, within_seconds| Condition::Failures {
            count,
            within_seconds,
            of: AggregationScope::Cluster,
        };
        for (condition, expected_errors) in [
            (Condition::Flags(vec![]), vec![("flags", NoKinds)]),
            (failures(1, 60), vec![]),
            (failures(0, 59), vec![("count", Count), ("withinSeconds", Time)]),
            (cost(1, "EUR", 31), vec![]),
            (cost(0, "eur", 32), vec![("amount", Amount), ("currency", Currency), ("days", Days)]),
            (Condition::Idle { for_seconds: 31 * 86_400 + 1 }, vec![("forSeconds", Time)]),
            (Condition::QuotaNears { percent: 100 }, vec![]),
            (Condition::QuotaNears { percent: 101 }, vec![("percent", Percent)]),
            (Condition::QuotaNears { percent: 0 }, vec![("percent", Percent)]),
        ] {
            assert_eq!(rule_input(condition.clone()).check(), expected_errors, "{condition:?}");
        }
        let check_name =
            |name: &str| RuleInput { name: name.to_owned(), ..rule_input(failures(1, 60)) }.check();
        assert_eq!(check_name(&"ä".repeat(100)), []);
        for name in [String::new(), "a\nb".to_owned(), "ä".repeat(101)] {
            assert_eq!(check_name(&name), [("name", AlertError::Name)], "{name}");
        }
    }

    #[test]
    fn addresses_are_looked_at() {
        let channels = |webhooks: &[&str], emails: &[&str]| Channels {
            webhooks: webhooks.iter().map(|text| (*text).to_owned()).collect(),
            emails: emails.iter().map(|text| (*text).to_owned()).collect(),
            secret: SigningKey::generate(&mut rand::rng()),
        };
        assert_eq!(channels(&[], &[]).check(), [("webhooks", AlertError::NoChannel)]);
        assert_eq!(
            channels(&["https://example.com/a?b=c", "http://10.0.0.1:9"], &["ada@example.com"]).check(),
            []
        );
        for webhook in [
            "",
            "example.com",
            "ftp://example.com",
            "https://ada@example.com",
            "https://:x@example.com",
            "file:///a",
        ] {
            assert_eq!(channels(&[webhook], &[]).check(), [("webhooks", AlertError::Webhook)], "{webhook}");
        }
        for email in ["", "ada", "ada@", "ada@example.com\r\nBcc: eve@example.com", "Ada <ada@example.com>"] {
            assert_eq!(channels(&[], &[email]).check(), [("emails", AlertError::Email)], "{email}");
        }
        assert_eq!(channels(&["https://a.de"; 11], &[]).check(), [("webhooks", AlertError::TooManyTargets)]);
        assert_eq!(
            Channels::redact_webhook("https://hooks.example.com:8443/T0/secret?x=y"),
            "https://hooks.example.com:8443/…"
        );
        assert!(!format!("{:?}", SigningKey::generate(&mut rand::rng())).contains("whsec"));
    }
}
