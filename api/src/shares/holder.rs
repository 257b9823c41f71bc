//! The holders of slots, and the levels at which their slots are counted.

use std::net::IpAddr;

use entity::ids::{AccountId, ApiTokenId, UserId};

/// The number of levels of a holder.
pub(super) const LEVELS: usize = 4;

/// The holder of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    group: Group,
    member: GroupMember,
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
pub(crate) enum GroupMember {
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
    pub(crate) fn signed_in(account: AccountId, member: GroupMember) -> Self {
        Self { group: Group::Account(account), member }
    }

    /// Returns the holder for the server's own work for an account.
    pub(crate) fn server(account: AccountId) -> Self {
        Self { group: Group::Account(account), member: GroupMember::Server }
    }

    /// Returns the holder for an unauthenticated client at an address. `credentials_hash` is the hash of its
    /// credentials.
    pub(crate) fn for_unauthenticated(address: IpAddr, credentials_hash: u64) -> Self {
        Self { group: Group::Address(address), member: GroupMember::UnverifiedHash(credentials_hash) }
    }

    /// Returns true for the server's own work.
    pub(super) fn is_server(self) -> bool {
        self.member == GroupMember::Server
    }

    /// Returns the levels of the holder, from itself to its group. A level that a holder does not have
    /// repeats the one before it; an address, which is shared less than an account, comes second.
    pub(super) fn levels(self) -> [Level; LEVELS] {
        let (own_level, group) = (Level::Holder(self), Level::Group(self.group));
        match self.member {
            GroupMember::Token(user, _) => {
                [own_level, Level::TokensOf(self.group, user), Level::User(self.group, user), group]
            }
            GroupMember::User(user) => [own_level, own_level, Level::User(self.group, user), group],
            GroupMember::UnverifiedHash(_) => [own_level, group, group, group],
            GroupMember::Server => [own_level, own_level, own_level, group],
        }
    }

    /// Returns the levels of the holder, each once.
    pub(super) fn distinct_levels(self) -> impl DoubleEndedIterator<Item = Level> {
        let levels = self.levels();
        let is_new = move |rank: &usize| *rank == 0 || levels[*rank] != levels[rank - 1];
        (0..LEVELS).filter(is_new).map(move |rank| levels[rank])
    }
}
