//! What is written down of what somebody did: who it was, and what it was done to.

use std::{fmt, net::IpAddr, str::FromStr};

use chrono::{Days, NaiveDate};
use entity::{
    Timestamp,
    audit_entry::{Action, Credential, Outcome},
    ids::{AlertRuleId, ApiTokenId, ClusterId, ErrorGroupId, PerformanceReportId, UserId},
    membership::Role,
    user,
};
use sea_orm::ActiveEnum;
use serde_json::{Value, json};
use uuid::Uuid;

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The address of the client.
    pub address: IpAddr,
    /// What the answer and the log name the request by.
    pub request_id: Uuid,
}

/// Who does something, how they proved that, and from where and when.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The user and what they are called; none for an operator.
    pub user: Option<(UserId, String)>,
    /// How that was proved.
    pub credential: Credential,
    /// The token, if it was by one.
    pub token: Option<ApiTokenId>,
    /// Where the request came from; none for what came over no network.
    pub origin: Option<Origin>,
    /// When.
    pub at: Timestamp,
}

impl Actor {
    /// Whoever has the command line of the server.
    #[must_use]
    pub fn operator(at: Timestamp) -> Self {
        Self { user: None, credential: Credential::Operator, token: None, origin: None, at }
    }

    /// Somebody whom another issuer sends for the first time, by a JWT or with a browser.
    #[must_use]
    pub fn newcomer(user: UserId, name: String, credential: Credential, at: Timestamp) -> Self {
        Self { user: Some((user, name)), credential, token: None, origin: None, at }
    }

    /// Somebody at a browser, on pages of the server's own.
    #[must_use]
    pub fn in_browser(user: &user::Model, origin: Origin, at: Timestamp) -> Self {
        let name = (user.id, user.name.clone());
        Self { user: Some(name), credential: Credential::Session, token: None, origin: Some(origin), at }
    }
}

/// What something is done to. Tokens and invitations are named by their public half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The account itself.
    Account,
    /// A cluster.
    Cluster(ClusterId),
    /// A group of errors.
    ErrorGroup(ErrorGroupId),
    /// A user.
    User(UserId),
    /// A token.
    ApiToken(String),
    /// An invitation.
    Invitation(String),
    /// An alert rule.
    AlertRule(AlertRuleId),
    /// A performance report.
    PerformanceReport(PerformanceReportId),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account => f.write_str("account"),
            Self::Cluster(id) => write!(f, "cluster:{id}"),
            Self::ErrorGroup(id) => write!(f, "error_group:{id}"),
            Self::User(id) => write!(f, "user:{id}"),
            Self::ApiToken(identifier) => write!(f, "api_token:{identifier}"),
            Self::Invitation(identifier) => write!(f, "invitation:{identifier}"),
            Self::AlertRule(id) => write!(f, "alert_rule:{id}"),
            Self::PerformanceReport(id) => write!(f, "performance_report:{id}"),
        }
    }
}

/// A text names nothing that something can be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it names nothing that something can be done to")]
pub struct NoTarget;

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Self, NoTarget> {
        let (kind, id) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "account" => Ok(Self::Account),
            "cluster" => id.parse().map(Self::Cluster).map_err(|_| NoTarget),
            "error_group" => id.parse().map(Self::ErrorGroup).map_err(|_| NoTarget),
            "user" => id.parse().map(Self::User).map_err(|_| NoTarget),
            "api_token" => Ok(Self::ApiToken(id.to_owned())),
            "invitation" => Ok(Self::Invitation(id.to_owned())),
            "alert_rule" => id.parse().map(Self::AlertRule).map_err(|_| NoTarget),
            "performance_report" => id.parse().map(Self::PerformanceReport).map_err(|_| NoTarget),
            _ => Err(NoTarget),
        }
    }
}

/// A day by its number since 1970-01-01, as it is written.
#[derive(Clone, Copy, Debug)]
pub struct Day(pub i64);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day =
            u64::try_from(self.0).ok().and_then(|day| NaiveDate::default().checked_add_days(Days::new(day)));
        match day {
            Some(day) => write!(f, "{day}"),
            None => write!(f, "day {}", self.0),
        }
    }
}

/// What of a membership is written down.
#[must_use]
pub fn membership_detail(role: Role, ends_at: Option<Timestamp>) -> Value {
    json!({ "role": role.to_value(), "until": time_detail(ends_at) })
}

/// A time as it is written down.
#[must_use]
pub fn time_detail(time: Option<Timestamp>) -> Value {
    time.map_or(Value::Null, |time| time.0.to_rfc3339().into())
}

/// What is written down of it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What is done.
    pub action: Action,
    /// What came of it.
    pub outcome: Outcome,
    /// What it is done to.
    pub target: Target,
    /// What there is to know besides. No secret is ever in it, and no text that is encrypted elsewhere.
    pub detail: Value,
}

impl Entry {
    /// Something that is done.
    #[must_use]
    pub fn done(action: Action, target: Target, detail: Value) -> Self {
        Self { action, outcome: Outcome::Done, target, detail }
    }

    /// Something that a rule speaks against.
    #[must_use]
    pub fn refused(action: Action, target: Target, detail: Value) -> Self {
        Self { action, outcome: Outcome::Refused, target, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_back() {
        let uuid = Uuid::from_u128(7);
        for target in [
            Target::Account,
            Target::Cluster(ClusterId(3)),
            Target::ErrorGroup(ErrorGroupId(uuid)),
            Target::User(UserId(uuid)),
            Target::ApiToken("abc".to_owned()),
            Target::Invitation("abc".to_owned()),
            Target::AlertRule(AlertRuleId(uuid)),
            Target::PerformanceReport(PerformanceReportId(uuid)),
        ] {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        for text in ["", "cluster", "cluster:x", "user:7", "planet:1"] {
            assert_eq!(text.parse::<Target>(), Err(NoTarget), "{text}");
        }
    }
}
