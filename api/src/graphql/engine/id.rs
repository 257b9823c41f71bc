//! Global identifiers. They are opaque to clients. Each contains its type and account, so that an
//! identifier of another type is refused.

use std::str::FromStr;

use async_graphql::ID;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use entity::ids::{
    AccountId, AlertDeliveryId, AlertId, AlertRuleId, ApiTokenId, AuditEntryId, ClientId, ClusterId,
    ComputationId, ErrorGroupId, ErrorOccurrenceId, EventId, FlagId, InvitationId, LogLineId,
    PerformanceReportId, SavedViewId, SpanId, TaskGroupId, UserId, WorkerId,
};

/// A part of an identifier. Each value has exactly one text.
trait IdPart: FromStr {
    fn to_text(self) -> String;
}

macro_rules! uuid_parts {
    ($($kind:ident),+ $(,)?) => {$(
        impl IdPart for $kind {
            fn to_text(self) -> String {
                self.0.simple().to_string()
            }
        }
    )+};
}
uuid_parts!(
    AccountId,
    AlertDeliveryId,
    AlertId,
    AlertRuleId,
    ApiTokenId,
    AuditEntryId,
    ClientId,
    ComputationId,
    ErrorGroupId,
    ErrorOccurrenceId,
    EventId,
    FlagId,
    InvitationId,
    LogLineId,
    PerformanceReportId,
    SavedViewId,
    SpanId,
    TaskGroupId,
    UserId,
    WorkerId,
);

impl IdPart for ClusterId {
    fn to_text(self) -> String {
        self.to_string()
    }
}

/// A time in milliseconds, which the keys of events and log lines contain.
impl IdPart for i64 {
    fn to_text(self) -> String {
        self.to_string()
    }
}

/// Declares the identifiers: the type of each object, and the parts of its key after the account.
macro_rules! global_ids {
    ($($noun:ident($($part:ident: $kind:ty),*)),+ $(,)?) => {
        /// A parsed global identifier.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum GlobalId {
            $($noun(AccountId $(, $kind)*)),+
        }

        impl GlobalId {
            /// Returns the account that the object belongs to.
            pub(crate) fn account(self) -> AccountId {
                match self {
                    $(Self::$noun(account, ..) => account),+
                }
            }

            fn canonical_text(self) -> String {
                match self {
                    $(Self::$noun(account $(, $part)*) => {
                        [stringify!($noun).to_owned(), account.to_text() $(, $part.to_text())*].join(":")
                    })+
                }
            }

            /// Parses a text, also if a part is not in its canonical notation.
            fn parse_text(text: &str) -> Option<Self> {
                let mut parts = text.split(':');
                let noun = parts.next()?;
                $(if noun == stringify!($noun) {
                    return Some(Self::$noun(parse_part(&mut parts)? $(, parse_part::<$kind>(&mut parts)?)*));
                })+
                None
            }
        }
    };
}
global_ids! {
    Account(),
    Alert(id: AlertId),
    AlertDelivery(id: AlertDeliveryId),
    AlertRule(id: AlertRuleId),
    ApiToken(id: ApiTokenId),
    AuditEntry(id: AuditEntryId),
    Client(cluster: ClusterId, id: ClientId),
    Cluster(id: ClusterId),
    Computation(cluster: ClusterId, id: ComputationId),
    ErrorGroup(id: ErrorGroupId),
    ErrorOccurrence(cluster: ClusterId, id: ErrorOccurrenceId),
    Event(cluster: ClusterId, at: i64, id: EventId),
    Flag(cluster: ClusterId, id: FlagId),
    Invitation(id: InvitationId),
    LogLine(cluster: ClusterId, at: i64, id: LogLineId),
    Member(user: UserId),
    PerformanceReport(id: PerformanceReportId),
    SavedView(id: SavedViewId),
    Span(cluster: ClusterId, id: SpanId),
    TaskGroup(cluster: ClusterId, id: TaskGroupId),
    User(id: UserId),
    Worker(cluster: ClusterId, id: WorkerId),
}

fn parse_part<'a, T: IdPart>(parts: &mut impl Iterator<Item = &'a str>) -> Option<T> {
    parts.next()?.parse().ok()
}

impl GlobalId {
    /// Parses an identifier that [`ID::from`] wrote; returns `None` for any other text.
    pub(crate) fn parse(id: &ID) -> Option<Self> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(id.as_str()).ok()?).ok()?;
        let parsed = Self::parse_text(&text)?;
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
            GlobalId::Event(account, ClusterId(3), -4, EventId(uuid)),
            GlobalId::Member(account, UserId(uuid)),
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
