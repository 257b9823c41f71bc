//! Rules of accounts, and their bounds.

use std::{fmt, ops::RangeInclusive};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use entity::{
    alert_rule::{Condition, Scope},
    ids::UserId,
    list::TagPattern,
};
use rand::Rng;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::domain::{cost::Currency, http_address::is_http_address, tag::MAX_PATTERNS};

/// Rules of one account at the most: each is asked for again and again.
pub const MAX_RULES: u64 = 50;

/// Addresses of one kind that a rule tells at the most.
pub const MAX_TARGETS: usize = 10;

/// Characters of a name at the most.
const MAX_NAME: usize = 100;

/// Characters of an address at the most.
const MAX_ADDRESS: usize = 2_048;

/// Users a rule names at the most.
const MAX_USERS: usize = 100;

/// Times in seconds in which errors can be counted, or for which clusters can be idle: a minute to 31 days.
const TIMES: RangeInclusive<i64> = 60..=31 * 86_400;

/// How long nothing is said again, in seconds: a minute to a week.
const RESTS: RangeInclusive<i64> = 60..=7 * 86_400;

/// What one can count, and what one can pay.
const COUNTS: RangeInclusive<i64> = 1..=1_000_000_000;
const NANOS: RangeInclusive<i64> = 1..=1_000_000_000_000_000_000;

/// Days that costs can be summed over.
const DAYS: RangeInclusive<i64> = 1..=31;

/// What a rule is to be.
#[derive(Clone, Debug)]
pub struct RuleWish {
    /// What it is called.
    pub name: String,
    /// Whether it is looked at.
    pub enabled: bool,
    /// What is to be told.
    pub condition: Condition,
    /// Of which clusters.
    pub scope: Scope,
    /// How long nothing is said again of what was just told, in seconds.
    pub cool_down_seconds: i64,
    /// Whether it is told when it is over.
    pub tells_end: bool,
}

/// Where a rule sends what it tells, with the secret that it signs with. It has no `Debug`: addresses hold secrets, too.
#[derive(Clone, Serialize, Deserialize)]
pub struct Channels {
    /// Addresses that are sent HTTP requests.
    pub webhooks: Vec<String>,
    /// Addresses that are sent e-mails.
    pub emails: Vec<String>,
    /// What requests are signed with.
    pub secret: Secret,
}

/// What requests of a rule are signed with. Its `Debug` is blank.
#[derive(Clone, Serialize, Deserialize)]
pub struct Secret(String);

impl Secret {
    /// A new one of 256 random bits.
    pub fn generate(random: &mut impl Rng) -> Self {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        Self(format!("whsec_{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The secret itself, to be shown once and to be signed with.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Why a rule cannot be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AlertError {
    /// It cannot be called that.
    #[error("must have 1 to {MAX_NAME} characters, none of them a control character")]
    Name,
    /// Nothing to be noticed.
    #[error("must be at least one kind")]
    NoKinds,
    /// Too few or too many.
    #[error("must be from {} to {}", COUNTS.start(), COUNTS.end())]
    Count,
    /// Too short or too long.
    #[error("must be from {} to {} seconds", TIMES.start(), TIMES.end())]
    Time,
    /// Too little or too much.
    #[error("must be more than 0 and at most a thousand million")]
    Amount,
    /// No currency.
    #[error("must be three capital letters, as in USD")]
    Currency,
    /// Too few or too many.
    #[error("must be from {} to {} days", DAYS.start(), DAYS.end())]
    Days,
    /// Too short or too long.
    #[error("must be from {} to {} seconds", RESTS.start(), RESTS.end())]
    CoolDown,
    /// Too many users.
    #[error("must be at most {MAX_USERS}")]
    Users,
    /// Too many tags.
    #[error("must be at most {MAX_PATTERNS}")]
    Tags,
    /// Nobody would be told.
    #[error("needs a webhook or an e-mail address")]
    NoChannel,
    /// Too many addresses.
    #[error("must be at most {MAX_TARGETS}")]
    TooManyTargets,
    /// Not one to send requests to.
    #[error(
        "must be an address beginning with https://, or http:// where the operator allows it, without a user or password"
    )]
    Webhook,
    /// Not one to send e-mails to.
    #[error("must be an e-mail address, as ada@example.com")]
    Email,
}

impl RuleWish {
    /// What is wrong with it, each with the field it is about.
    #[must_use]
    pub fn check(&self) -> Vec<(&'static str, AlertError)> {
        let mut wrong = Vec::new();
        let mut unless = |holds: bool, field, error| {
            if !holds {
                wrong.push((field, error));
            }
        };
        let name = self.name.chars().count();
        unless(
            (1..=MAX_NAME).contains(&name) && !self.name.chars().any(char::is_control),
            "name",
            AlertError::Name,
        );
        match &self.condition {
            Condition::Flags(kinds) => unless(!kinds.is_empty(), "flags", AlertError::NoKinds),
            Condition::Failures { count, within_seconds, .. } => {
                unless(COUNTS.contains(count), "count", AlertError::Count);
                unless(TIMES.contains(within_seconds), "withinSeconds", AlertError::Time);
            }
            Condition::Cost { nanos, currency, days, .. } => {
                unless(NANOS.contains(nanos), "amount", AlertError::Amount);
                unless(Currency::parse(currency).is_some(), "currency", AlertError::Currency);
                unless(DAYS.contains(days), "days", AlertError::Days);
            }
            Condition::Idle { for_seconds } => {
                unless(TIMES.contains(for_seconds), "forSeconds", AlertError::Time);
            }
        }
        let few = |users: &Vec<UserId>| users.len() <= MAX_USERS;
        unless(self.scope.users.as_ref().is_none_or(few), "users", AlertError::Users);
        let few = |tags: &Vec<TagPattern>| tags.len() <= MAX_PATTERNS;
        unless(self.scope.tags.as_ref().is_none_or(few), "tags", AlertError::Tags);
        unless(RESTS.contains(&self.cool_down_seconds), "coolDownSeconds", AlertError::CoolDown);
        wrong
    }
}

impl Channels {
    /// What is wrong with it, each with the field it is about.
    #[must_use]
    pub fn check(&self) -> Vec<(&'static str, AlertError)> {
        let mut wrong = Vec::new();
        if self.webhooks.is_empty() && self.emails.is_empty() {
            wrong.push(("webhooks", AlertError::NoChannel));
        }
        for (field, targets, error, is_one) in [
            ("webhooks", &self.webhooks, AlertError::Webhook, is_webhook as fn(&str) -> bool),
            ("emails", &self.emails, AlertError::Email, is_email),
        ] {
            if targets.len() > MAX_TARGETS {
                wrong.push((field, AlertError::TooManyTargets));
            } else if !targets.iter().all(|target| is_one(target)) {
                wrong.push((field, error));
            }
        }
        wrong
    }

    /// What everybody may read of an address that is sent requests: its path may be a secret.
    #[must_use]
    pub fn shown(webhook: &str) -> String {
        let url = webhook.parse::<Url>().ok();
        let origin = url.map(|url| url.origin().ascii_serialization());
        origin.map_or_else(|| "…".to_owned(), |origin| format!("{origin}/…"))
    }
}

fn is_webhook(address: &str) -> bool {
    address.len() <= MAX_ADDRESS && address.parse::<Url>().is_ok_and(|url| is_http_address(&url))
}

fn is_email(address: &str) -> bool {
    address.len() <= 254 && address.parse::<lettre::Address>().is_ok()
}

#[cfg(test)]
mod tests {
    use entity::alert_rule::Whose;

    use super::*;

    fn wish(condition: Condition) -> RuleWish {
        RuleWish {
            name: "Failures at night".to_owned(),
            enabled: true,
            condition,
            scope: Scope::default(),
            cool_down_seconds: 3_600,
            tells_end: true,
        }
    }

    #[test]
    fn rules_have_bounds() {
        use AlertError::{Amount, Count, Currency, Days, NoKinds, Time};
        let cost = |nanos, currency: &str, days| Condition::Cost {
            nanos,
            currency: currency.to_owned(),
            days,
            of: Whose::User,
        };
        let failures =
            |count, within_seconds| Condition::Failures { count, within_seconds, of: Whose::Cluster };
        for (condition, wrong) in [
            (Condition::Flags(vec![]), vec![("flags", NoKinds)]),
            (failures(1, 60), vec![]),
            (failures(0, 59), vec![("count", Count), ("withinSeconds", Time)]),
            (cost(1, "EUR", 31), vec![]),
            (cost(0, "eur", 32), vec![("amount", Amount), ("currency", Currency), ("days", Days)]),
            (Condition::Idle { for_seconds: 31 * 86_400 + 1 }, vec![("forSeconds", Time)]),
        ] {
            assert_eq!(wish(condition.clone()).check(), wrong, "{condition:?}");
        }
        let named = |name: &str| RuleWish { name: name.to_owned(), ..wish(failures(1, 60)) }.check();
        assert_eq!(named(&"ä".repeat(100)), []);
        for name in [String::new(), "a\nb".to_owned(), "ä".repeat(101)] {
            assert_eq!(named(&name), [("name", AlertError::Name)], "{name}");
        }
    }

    #[test]
    fn addresses_are_looked_at() {
        let channels = |webhooks: &[&str], emails: &[&str]| Channels {
            webhooks: webhooks.iter().map(|text| (*text).to_owned()).collect(),
            emails: emails.iter().map(|text| (*text).to_owned()).collect(),
            secret: Secret::generate(&mut rand::rng()),
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
            Channels::shown("https://hooks.example.com:8443/T0/secret?x=y"),
            "https://hooks.example.com:8443/…"
        );
        assert!(!format!("{:?}", Secret::generate(&mut rand::rng())).contains("whsec"));
    }
}
