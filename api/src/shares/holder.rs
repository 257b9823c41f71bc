//! The holders of slots, and the levels at which their slots are counted.

use std::net::IpAddr;

use entity::ids::{AccountId, ApiTokenId, UserId};

/// The number of levels of a holder.
pub(super) const LEVELS: usize = 4;

/// The holder of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    group: Group,
    member: Member,
}

/// A group of holders that is independent of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// An account.
    Account(AccountId),
    /// Unauthenticated clients at an address.
    Address(IpAddr),
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Member {
    /// An API token of a user. Tokens that were exchanged for it count as the same one.
    Token(UserId, ApiTokenId),
    /// A user with any other credentials.
    User(UserId),
    /// Unverified credentials, by their hash.
    UnverifiedHash(u64),
    /// The server's own work for the account.
    Server,
}

/// A set of holders whose slots are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Level {
    /// A single holder.
    Holder(Holder),
    /// All API tokens of a user. They lie on schedulers and may leak, so they leave slots to the user's
    /// sessions.
    TokensOf(Group, UserId),
    /// All credentials of a user.
    User(Group, UserId),
    /// All holders of an account or an address.
    Group(Group),
}

impl Holder {
    /// Returns the holder for an authenticated caller.
    pub(crate) fn signed_in(account: AccountId, member: Member) -> Self {
        Self { group: Group::Account(account), member }
    }

    /// Returns the holder for the server's own work for an account.
    pub(crate) fn server(account: AccountId) -> Self {
        Self { group: Group::Account(account), member: Member::Server }
    }

    /// Returns the holder for an unauthenticated client at an address. `shown` is the hash of its
    /// credentials.
    pub(crate) fn for_unauthenticated(address: IpAddr, shown: u64) -> Self {
        Self { group: Group::Address(address), member: Member::UnverifiedHash(shown) }
    }

    /// Returns true for the server's own work.
    pub(super) fn is_server(self) -> bool {
        self.member == Member::Server
    }

    /// Returns the levels of the holder, from itself to its group. A level that a holder does not have
    /// repeats the one before it; an address, which is shared less than an account, comes second.
    pub(super) fn levels(self) -> [Level; LEVELS] {
        let (own, group) = (Level::Holder(self), Level::Group(self.group));
        match self.member {
            Member::Token(user, _) => {
                [own, Level::TokensOf(self.group, user), Level::User(self.group, user), group]
            }
            Member::User(user) => [own, own, Level::User(self.group, user), group],
            Member::UnverifiedHash(_) => [own, group, group, group],
            Member::Server => [own, own, own, group],
        }
    }

    /// Returns the levels of the holder, each once.
    pub(super) fn distinct_levels(self) -> impl DoubleEndedIterator<Item = Level> {
        let levels = self.levels();
        let is_new = move |rank: &usize| *rank == 0 || levels[*rank] != levels[rank - 1];
        (0..LEVELS).filter(is_new).map(move |rank| levels[rank])
    }
}
