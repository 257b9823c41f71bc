//! The notification bus: reports that a cluster or an account changed, never its new state. Subscribers
//! read the database, which alone decides who may see a row.
//!
//! A writer publishes a [`Notice`] after its commit. Without a subscriber of the account, this costs one
//! read of a counter. A subscriber ([`BusSubscription`]) keeps one merged notice per cluster, for a
//! bounded number of clusters. Beyond that bound it records a gap, and then reads everything that changed
//! since its last read.

mod in_process;
mod redis;
mod redis_url;

use std::{fmt::Debug, ops::BitOr};

use entity::ids::{AccountId, ClusterId};
use futures::future::BoxFuture;

pub use self::{
    in_process::{BusSubscription, InProcess},
    redis::Redis,
    redis_url::RedisUrl,
};

/// A set of the kinds of changes to a cluster or to an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChangeKinds(u16);

impl ChangeKinds {
    /// The cluster reported: its state and totals are newer.
    pub const STATE: Self = Self(1);
    /// Samples were added.
    pub const SAMPLES: Self = Self(1 << 1);
    /// Computations started or progressed.
    pub const COMPUTATIONS: Self = Self(1 << 2);
    /// Errors were added.
    pub const ERRORS: Self = Self(1 << 3);
    /// Events were added.
    pub const EVENTS: Self = Self(1 << 4);
    /// Log lines were added.
    pub const LOGS: Self = Self(1 << 5);
    /// A flag was raised or cleared.
    pub const FLAGS: Self = Self(1 << 6);
    /// A user or a rule of the account changed the cluster's annotations or its desired state.
    pub const ANNOTATIONS: Self = Self(1 << 7);
    /// A membership, a role or a token of the account was changed or removed.
    pub const ACCESS: Self = Self(1 << 8);
    /// Alerts were raised, changed or ended.
    pub const ALERTS: Self = Self(1 << 9);
    /// Error groups got errors or another status.
    pub const ERROR_GROUPS: Self = Self(1 << 10);

    /// The empty set.
    pub const NOTHING: Self = Self(0);

    /// Returns the set in the form that servers exchange.
    pub(super) fn bits(self) -> u16 {
        self.0
    }

    /// Restores a set from [`Self::bits`]. Bits that only another release knows are kept, and match no known
    /// kind.
    pub(super) fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Returns true if the two sets have a kind in common.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the set if `present`, and the empty set otherwise.
    #[must_use]
    pub fn only_if(self, present: bool) -> Self {
        if present { self } else { Self::NOTHING }
    }
}

impl BitOr for ChangeKinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The notice that a cluster changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The changed cluster.
    pub cluster: ClusterId,
    /// The kinds of changes.
    pub changed: ChangeKinds,
    /// The arrival number of the change within the cluster, as in `clusters.changed_at`.
    pub arrival: i64,
    /// The arrival number of the cluster's previous change. A subscriber that has read less has missed a
    /// notice.
    pub previous_arrival: i64,
    /// The time of the oldest event, log line or error that was added, in milliseconds since 1970. `None`
    /// if none was added.
    pub oldest_item_ms: Option<i64>,
}

impl Notice {
    /// Merges two notices of the same cluster. Subscribers read everything that arrived up to the later
    /// one.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            cluster: self.cluster,
            changed: self.changed | other.changed,
            arrival: self.arrival.max(other.arrival),
            previous_arrival: self.previous_arrival.min(other.previous_arrival),
            oldest_item_ms: [self.oldest_item_ms, other.oldest_item_ms].into_iter().flatten().min(),
        }
    }
}

/// The changes since the subscriber's last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// One notice for each cluster that changed.
    pub clusters: Vec<Notice>,
    /// True if changes may have happened for which no notice arrived.
    pub gap: bool,
    /// The kinds of changes to the account itself.
    pub account: ChangeKinds,
}

/// Notifies the subscribers of an account of its changes.
pub trait Bus: Debug + Send + Sync {
    /// Publishes a change of a cluster. It is called after the commit and never blocks.
    fn publish(&self, account: AccountId, notice: Notice);

    /// Publishes changes of the account itself, in the same way.
    fn publish_account(&self, account: AccountId, changed: ChangeKinds);

    /// Subscribes to the account's changes of the given kinds, from now on.
    fn subscribe(&self, account: AccountId, kinds: ChangeKinds) -> BusSubscription;

    /// Reports a gap to the account's subscribers in this process, so that they read the database.
    fn force_resync(&self, account: AccountId);

    /// Returns true if all servers of the store currently receive one another's notices.
    fn is_connected(&self) -> bool;

    /// Publishes the pending notices to the other servers before this one stops.
    fn close(&self) -> BoxFuture<'_, ()>;
}
