//! Global identifiers. They are opaque to clients. Each contains its type and account, so that an
//! identifier of another type is refused.

use std::str::FromStr;

use async_graphql::ID;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use entity::ids::{
    AccountId, ClusterId, ComputationId, ErrorGroupId, ErrorOccurrenceId, SpanId, TaskGroupId, UserId,
    WorkerId,
};

/// A parsed global identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GlobalId {
    Account(AccountId),
    User(AccountId, UserId),
    Cluster(AccountId, ClusterId),
    Computation(AccountId, ClusterId, ComputationId),
    TaskGroup(AccountId, ClusterId, TaskGroupId),
    ErrorOccurrence(AccountId, ClusterId, ErrorOccurrenceId),
    ErrorGroup(AccountId, ErrorGroupId),
    Worker(AccountId, ClusterId, WorkerId),
    Span(AccountId, ClusterId, SpanId),
}

impl GlobalId {
    /// Returns the account that the object belongs to.
    pub(super) fn account(self) -> AccountId {
        match self {
            Self::Account(account)
            | Self::User(account, _)
            | Self::Cluster(account, _)
            | Self::Computation(account, ..)
            | Self::TaskGroup(account, ..)
            | Self::ErrorOccurrence(account, ..)
            | Self::ErrorGroup(account, _)
            | Self::Worker(account, ..)
            | Self::Span(account, ..) => account,
        }
    }

    fn canonical_text(self) -> String {
        match self {
            Self::Account(account) => format!("Account:{}", account.0.simple()),
            Self::User(account, id) => format!("User:{}:{}", account.0.simple(), id.0.simple()),
            Self::Cluster(account, id) => format!("Cluster:{}:{id}", account.0.simple()),
            Self::Computation(account, cluster, id) => {
                format!("Computation:{}:{cluster}:{}", account.0.simple(), id.0.simple())
            }
            Self::TaskGroup(account, cluster, id) => {
                format!("TaskGroup:{}:{cluster}:{}", account.0.simple(), id.0.simple())
            }
            Self::ErrorOccurrence(account, cluster, id) => {
                format!("ErrorOccurrence:{}:{cluster}:{}", account.0.simple(), id.0.simple())
            }
            Self::ErrorGroup(account, id) => {
                format!("ErrorGroup:{}:{}", account.0.simple(), id.0.simple())
            }
            Self::Worker(account, cluster, id) => {
                format!("Worker:{}:{cluster}:{}", account.0.simple(), id.0.simple())
            }
            Self::Span(account, cluster, id) => {
                format!("Span:{}:{cluster}:{}", account.0.simple(), id.0.simple())
            }
        }
    }

    /// Parses an identifier that [`ID::from`] wrote; returns `None` for any other text.
    pub(super) fn parse(id: &ID) -> Option<Self> {
        fn part<'a, T: FromStr>(parts: &mut impl Iterator<Item = &'a str>) -> Option<T> {
            parts.next()?.parse().ok()
        }
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(id.as_str()).ok()?).ok()?;
        let mut parts = text.split(':');
        let noun = parts.next()?;
        let account = part(&mut parts)?;
        let parsed = match noun {
            "Account" => Self::Account(account),
            "User" => Self::User(account, part(&mut parts)?),
            "Cluster" => Self::Cluster(account, part(&mut parts)?),
            "Computation" => Self::Computation(account, part(&mut parts)?, part(&mut parts)?),
            "TaskGroup" => Self::TaskGroup(account, part(&mut parts)?, part(&mut parts)?),
            "ErrorOccurrence" => Self::ErrorOccurrence(account, part(&mut parts)?, part(&mut parts)?),
            "ErrorGroup" => Self::ErrorGroup(account, part(&mut parts)?),
            "Worker" => Self::Worker(account, part(&mut parts)?, part(&mut parts)?),
            "Span" => Self::Span(account, part(&mut parts)?, part(&mut parts)?),
            _ => return None,
        };
        // Each object has exactly one identifier, so other notations of the same numbers are refused.
        (parsed.canonical_text() == text).then_some(parsed)
    }
}

/// Returns the global identifier of a span, as text.
pub(crate) fn global_span_id(account: AccountId, cluster: ClusterId, span: SpanId) -> String {
    ID::from(GlobalId::Span(account, cluster, span)).0
}

impl From<GlobalId> for ID {
    fn from(id: GlobalId) -> Self {
        Self(URL_SAFE_NO_PAD.encode(id.canonical_text()))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn identifiers_are_read_back() {
        let (account, uuid) = (AccountId(Uuid::from_u128(1)), Uuid::from_u128(2));
        for id in [
            GlobalId::Account(account),
            GlobalId::User(account, UserId(uuid)),
            GlobalId::Cluster(account, ClusterId(3)),
            GlobalId::Computation(account, ClusterId(3), ComputationId(uuid)),
            GlobalId::TaskGroup(account, ClusterId(3), TaskGroupId(uuid)),
            GlobalId::ErrorOccurrence(account, ClusterId(3), ErrorOccurrenceId(uuid)),
            GlobalId::ErrorGroup(account, ErrorGroupId(uuid)),
            GlobalId::Worker(account, ClusterId(3), WorkerId(uuid)),
            GlobalId::Span(account, ClusterId(3), SpanId(uuid)),
        ] {
            assert_eq!(GlobalId::parse(&id.into()), Some(id));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let encode = |text: &str| ID(URL_SAFE_NO_PAD.encode(text));
        let account = Uuid::from_u128(1);
        for id in [
            ID(String::new()),
            ID("not base64!".into()),
            encode("Cluster"),
            encode(&format!("Cluster:{}", account.simple())),
            encode(&format!("Cluster:{}:x", account.simple())),
            encode(&format!("Cluster:{}:3:4", account.simple())),
            encode(&format!("Cluster:{}:+3", account.simple())),
            encode(&format!("Cluster:{account}:3")),
            encode(&format!("Planet:{}:3", account.simple())),
        ] {
            assert_eq!(GlobalId::parse(&id), None, "{id:?}");
        }
    }
}
