//! Who is told what changed, and that it did: never what it is now. Readers read the database, which alone decides who may
//! see what.
//!
//! Whoever commits a change publishes a [`Notice`] after the commit. Where nobody watches the account that costs a look at a
//! number. Whoever watches has an ear ([`Watch`]), which keeps one notice for each cluster, however many were published, and no more
//! than so many: what does not fit is a gap, which the reader closes by reading what changed since it last did.

mod in_process;
mod redis;

use std::{fmt::Debug, ops::BitOr};

use entity::ids::{AccountId, ClusterId};
use futures::future::BoxFuture;

pub use self::{
    in_process::{InProcess, Watch},
    redis::{Redis, RedisUrl},
};

/// What happened to a cluster, or to an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Changed(u16);

impl Changed {
    /// The cluster reported: its state and figures are newer.
    pub const FIGURES: Self = Self(1);
    /// Samples were added.
    pub const SAMPLES: Self = Self(1 << 1);
    /// Computations began or went on.
    pub const COMPUTATIONS: Self = Self(1 << 2);
    /// Errors were added.
    pub const ERRORS: Self = Self(1 << 3);
    /// Events were added.
    pub const EVENTS: Self = Self(1 << 4);
    /// Lines of logs were added.
    pub const LOGS: Self = Self(1 << 5);
    /// A flag was raised or lowered.
    pub const FLAGS: Self = Self(1 << 6);
    /// Somebody, or a rule of the account, changed what is said of the cluster or wanted of it.
    pub const DECISIONS: Self = Self(1 << 7);
    /// Who may see the account.
    pub const ACCESS: Self = Self(1 << 8);

    /// Nothing.
    pub const NOTHING: Self = Self(0);

    /// What servers tell one another.
    pub(super) fn bits(self) -> u16 {
        self.0
    }

    /// Reads what [`Self::bits`] told. What another version knows besides is nothing here.
    pub(super) fn of_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Whether any of `other` is among it.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// It, if `present`.
    #[must_use]
    pub fn when(self, present: bool) -> Self {
        if present { self } else { Self::NOTHING }
    }
}

impl BitOr for Changed {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// That a cluster changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Which cluster.
    pub cluster: ClusterId,
    /// What of it.
    pub changed: Changed,
    /// The change's place among those of the cluster, as `clusters.changed_at` has it.
    pub arrival: i64,
    /// The place of the change before it. Whoever has read less than that has missed a notice.
    pub after: i64,
    /// The time of the oldest event, line or error that was added, in milliseconds since 1970: none if none was.
    pub since: Option<i64>,
}

impl Notice {
    /// The two as one. Readers look for all that arrived until the later.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let since = [self.since, other.since].into_iter().flatten().min();
        let (arrival, after) = (self.arrival.max(other.arrival), self.after.min(other.after));
        Self { cluster: self.cluster, changed: self.changed | other.changed, arrival, after, since }
    }
}

/// What was heard since the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// One notice for each cluster that changed.
    pub clusters: Vec<Notice>,
    /// Whether something may have changed of which nothing was heard.
    pub gap: bool,
    /// Whether it changed who may see the account.
    pub access: bool,
}

/// Tells those who watch an account what changes in it.
pub trait Bus: Debug + Send + Sync {
    /// Tells that a cluster changed. It is called after the commit, and waits for nothing.
    fn publish(&self, account: AccountId, notice: Notice);

    /// Tells that it changed who may see the account.
    fn publish_access(&self, account: AccountId);

    /// Watches an account from now on, for changes among `what`.
    fn watch(&self, account: AccountId, what: Changed) -> Watch;

    /// Has those who watch an account in this process look for what changed, as after a gap.
    fn look_again(&self, account: AccountId);

    /// Whether all servers of the store hear of one another now.
    fn is_whole(&self) -> bool;

    /// Tells the other servers what they have not been told yet, before this one ends.
    fn close(&self) -> BoxFuture<'_, ()>;
}
