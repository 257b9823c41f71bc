//! Identifiers as types, so that one noun's identifier cannot stand where another's is asked for.

use sea_orm::DeriveValueType;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, DeriveValueType,
        )]
        pub struct $name(pub Uuid);

        // sea-orm asks every key for this; no database of ours makes identifiers, so it always refuses.
        impl sea_orm::TryFromU64 for $name {
            fn try_from_u64(_: u64) -> Result<Self, sea_orm::DbErr> {
                Err(sea_orm::DbErr::ConvertFromU64(stringify!($name)))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    )+};
}

uuid_id! {
    /// An account: the tenant everything else belongs to.
    AccountId,
    /// A person or robot that signs in.
    UserId,
    /// An API token's row, not its public identifier.
    ApiTokenId,
    /// An invitation's row, not its public identifier.
    InvitationId,
    /// Something that was done, or tried, in an account.
    AuditEntryId,
    /// Dask's own identifier of a `Computation`.
    ComputationId,
    /// One `TaskGroup` object of one scheduler; made by the reporter, because Dask's names recur.
    TaskGroupId,
    /// One task that erred; made by the reporter when it happened.
    ErrorOccurrenceId,
    /// Errors that look alike: made of what they have in common.
    ErrorGroupId,
    /// The software a process runs on; made of its content.
    EnvironmentId,
    /// One worker process: the UUID in Dask's `server_id`.
    WorkerId,
    /// One client of a scheduler; made of Dask's own identifier, which is any text.
    ClientId,
    /// Dask's own identifier of a `Span`.
    SpanId,
    /// One window of a profile; made by the reporter.
    ProfileId,
    /// One event; made by the reporter.
    EventId,
    /// One line of a log; made by the reporter.
    LogLineId,
    /// Something that was noticed of a cluster, once.
    FlagId,
    /// Whom an account wants to be told of what.
    AlertRuleId,
    /// Something an account wanted to be told of, once.
    AlertId,
    /// A message to one receiver.
    AlertDeliveryId,
    /// A page that Dask drew of what a cluster did.
    PerformanceReportId,
}

/// A cluster: a time-ordered integer below 2^53, because the `coiled` client wants integers and browsers
/// keep those exact.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, DeriveValueType,
)]
pub struct ClusterId(pub i64);

impl std::fmt::Display for ClusterId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for ClusterId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A point in time that is part of a key: UTC epoch milliseconds, as [`crate::Timestamp`] is stored.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, DeriveValueType,
)]
pub struct KeyTime(pub i64);

impl From<KeyTime> for chrono::DateTime<chrono::Utc> {
    fn from(time: KeyTime) -> Self {
        Self::from_timestamp_millis(time.0).unwrap_or_default()
    }
}

impl From<crate::Timestamp> for KeyTime {
    fn from(time: crate::Timestamp) -> Self {
        Self(time.0.timestamp_millis())
    }
}
