//! Identifiers as types, so that one noun's identifier cannot be used in place of another's.

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

        // sea-orm requires this of each key type. No database generates these identifiers, so the
        // conversion always fails.
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
    /// An account: the tenant that all other data belongs to.
    AccountId,
    /// A person or robot that signs in.
    UserId,
    /// The row of an API token, not its public identifier.
    ApiTokenId,
    /// The row of an invitation, not its public identifier.
    InvitationId,
    /// An action, or an attempt at one, in an account.
    AuditEntryId,
    /// Dask's own identifier of a `Computation`.
    ComputationId,
    /// A `TaskGroup` object of one scheduler. The reporter generates the identifier, because Dask reuses
    /// names.
    TaskGroupId,
    /// A task that erred. The reporter generates the identifier when the error happens.
    ErrorOccurrenceId,
    /// A group of similar errors. The identifier is derived from what they have in common.
    ErrorGroupId,
    /// The software environment of a process. The identifier is derived from its content.
    EnvironmentId,
    /// A worker process. The identifier is the UUID in Dask's `server_id`.
    WorkerId,
    /// A client of a scheduler. The identifier is derived from Dask's own, which is any text.
    ClientId,
    /// Dask's own identifier of a `Span`.
    SpanId,
    /// A window of a profile. The reporter generates the identifier.
    ProfileId,
    /// An event. The reporter generates the identifier.
    EventId,
    /// A line of a log. The reporter generates the identifier.
    LogLineId,
    /// A condition flagged once on a cluster.
    FlagId,
    /// A rule for the alerts that an account sends.
    AlertRuleId,
    /// An alert that was raised once.
    AlertId,
    /// The delivery of an alert to one receiver.
    AlertDeliveryId,
    /// A performance report: a page in which Dask shows the activity of a cluster.
    PerformanceReportId,
    /// A saved view.
    SavedViewId,
}

/// A cluster. The identifier is its number: it counts up from 1 in each account, because people read it and
/// the `coiled` client requires integers.
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
