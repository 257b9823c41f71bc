//! Content of the audit log: actors, targets and entries.

use std::{fmt, net::IpAddr, str::FromStr};

use chrono::{Days, NaiveDate};
use entity::{
    Timestamp,
    audit_entry::{Action, Credential, Outcome},
    ids::{AlertRuleId, ApiTokenId, ClusterId, ErrorGroupId, PerformanceReportId, SavedViewId, UserId},
    membership::Role,
    user,
};
use sea_orm::ActiveEnum;
use serde_json::{Value, json};
use uuid::Uuid;

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The IP address of the client.
    pub address: IpAddr,
    /// The request id in the response and in the log.
    pub request_id: Uuid,
}

/// The author of an action, with the credential, origin and time.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The user and their name. `None` for an operator.
    pub user: Option<(UserId, String)>,
    /// The kind of credential.
    pub credential: Credential,
    /// The API token, if it is the credential.
    pub token: Option<ApiTokenId>,
    /// The origin of the request. `None` for an action without a network request.
    pub origin: Option<Origin>,
    /// The time of the action.
    pub at: Timestamp,
}

impl Actor {
    /// Creates an actor for a user of the server's command line.
    #[must_use]
    pub fn operator(at: Timestamp) -> Self {
        Self { user: None, credential: Credential::Operator, token: None, origin: None, at }
    }

    /// Creates an actor for a user at their first login through another issuer, with a JWT or in a
    /// browser.
    #[must_use]
    pub fn first_login(user: UserId, name: String, credential: Credential, at: Timestamp) -> Self {
        Self { user: Some((user, name)), credential, token: None, origin: None, at }
    }

    /// Creates an actor for a user of the server's own pages in a browser.
    #[must_use]
    pub fn in_browser(user: &user::Model, origin: Origin, at: Timestamp) -> Self {
        let name = (user.id, user.name.clone());
        Self { user: Some(name), credential: Credential::Session, token: None, origin: Some(origin), at }
    }
}

/// The target of an action. Tokens and invitations are identified by their public half.
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
    /// A saved view.
    SavedView(SavedViewId),
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
            Self::SavedView(id) => write!(f, "saved_view:{id}"),
        }
    }
}

/// The error for a text that is not a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it names nothing that something can be done to")]
pub struct ParseTargetError;

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, ParseTargetError> {
        let (kind, id) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "account" => Ok(Self::Account),
            "cluster" => id.parse().map(Self::Cluster).map_err(|_| ParseTargetError),
            "error_group" => id.parse().map(Self::ErrorGroup).map_err(|_| ParseTargetError),
            "user" => id.parse().map(Self::User).map_err(|_| ParseTargetError),
            "api_token" => Ok(Self::ApiToken(id.to_owned())),
            "invitation" => Ok(Self::Invitation(id.to_owned())),
            "alert_rule" => id.parse().map(Self::AlertRule).map_err(|_| ParseTargetError),
            "performance_report" => id.parse().map(Self::PerformanceReport).map_err(|_| ParseTargetError),
            "saved_view" => id.parse().map(Self::SavedView).map_err(|_| ParseTargetError),
            _ => Err(ParseTargetError),
        }
    }
}

/// A day as its number since 1970-01-01. It displays as a date.
#[derive(Clone, Copy, Debug)]
pub struct DayNumber(pub i64);

impl fmt::Display for DayNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day =
            u64::try_from(self.0).ok().and_then(|day| NaiveDate::default().checked_add_days(Days::new(day)));
        match day {
            Some(day) => write!(f, "{day}"),
            None => write!(f, "day {}", self.0),
        }
    }
}

/// Returns the logged detail of a membership.
#[must_use]
pub fn membership_detail(role: Role, ends_at: Option<Timestamp>) -> Value {
    json!({ "role": role.to_value(), "until": time_detail(ends_at) })
}

/// Returns the logged form of a time.
#[must_use]
pub fn time_detail(time: Option<Timestamp>) -> Value {
    time.map_or(Value::Null, |time| time.0.to_rfc3339().into())
}

/// The part of an audit entry that describes the action.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The action.
    pub action: Action,
    /// The outcome.
    pub outcome: Outcome,
    /// The target.
    pub target: Target,
    /// Further detail. It never contains a secret or a text that is stored encrypted elsewhere.
    pub detail: Value,
}

impl Entry {
    /// Creates an entry for a completed action.
    #[must_use]
    pub fn done(action: Action, target: Target, detail: Value) -> Self {
        Self { action, outcome: Outcome::Done, target, detail }
    }

    /// Creates an entry for an action that a rule refused.
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
            assert_eq!(text.parse::<Target>(), Err(ParseTargetError), "{text}");
        }
    }
}
