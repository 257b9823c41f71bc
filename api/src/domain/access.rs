//! Rules of who may give whom access to an account: nobody gives more than they have.

use entity::{Timestamp, api_token::Scope, membership::Role};

use super::role::{covers, manages};

/// Characters of a token's label at the most.
const MAX_LABEL: usize = 200;

/// Tokens of an account that are good at one time, at the most.
pub const MAX_TOKENS: u64 = 1_000;

/// Members of an account at the most.
pub const MAX_MEMBERS: u64 = 10_000;

/// Why somebody's access is not to be changed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// It cannot be the name of a user.
    #[error("must be 1 to 63 lower-case letters, digits, '-' or '_', beginning with a letter or digit")]
    Name,
    /// It cannot be the label of a token.
    #[error("must have at most {MAX_LABEL} characters, none of them a control character")]
    Label,
    /// A token without a scope is good for nothing.
    #[error("at least one scope is needed")]
    NoScope,
    /// The token that asks lacks a scope of the one that is wanted.
    #[error("the token that asks for it must have every scope itself")]
    ScopeNotHeld,
    /// The user is not enough for a scope.
    #[error("the role of the user does not cover every scope")]
    ScopeNotCovered,
    /// It would not be good for a moment.
    #[error("must lie in the future")]
    Past,
    /// The token that asks is good for a shorter time.
    #[error("must be given, and not lie behind the expiry of the token that asks for it")]
    OutlivesOwn,
    /// The role is above that of who asks.
    #[error("is above your own role")]
    AboveOwnRole,
    /// The member it is about is above who asks.
    #[error("the member's role is above your own")]
    MemberAbove,
    /// The user is a member.
    #[error("is a member already")]
    AlreadyMember,
    /// Nobody would be left who can do everything.
    #[error("is the account's last owner")]
    LastOwner,
    /// The account has as many as it may.
    #[error("the account has as many as it may have")]
    TooMany,
}

/// What a token is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenWish {
    /// What it is called.
    pub label: String,
    /// What it is good for.
    pub scopes: Vec<Scope>,
    /// Until when; none for ever.
    pub expires_at: Option<Timestamp>,
}

/// What somebody who asks for access has.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// What they are in the account.
    pub role: Role,
    /// What the token they show is good for.
    pub scopes: &'a [Scope],
    /// Until when it is; none for ever.
    pub expires_at: Option<Timestamp>,
}

/// Whether a membership that ends at this time, if at all, is over.
#[must_use]
pub fn is_over(ends_at: Option<Timestamp>, now: Timestamp) -> bool {
    ends_at.is_some_and(|end| end.0 <= now.0)
}

/// Whether somebody with `own` may make such a token for a member with the role `holder`; otherwise all that speaks
/// against it.
///
/// # Errors
/// What is wrong, by what it is wrong with.
pub fn check_token(
    own: Own<'_>,
    holder: Role,
    wish: &TokenWish,
    now: Timestamp,
) -> Result<(), Vec<AccessError>> {
    let above = (!manages(own.role, holder)).then_some(AccessError::MemberAbove);
    let wrong = wrong_with(own, holder, wish, now).chain(above);
    none_of(wrong.collect())
}

/// Whether somebody with `own` may make such a token for themselves, which takes no role of its own: it gives nobody
/// anything they have not.
///
/// # Errors
/// What is wrong, by what it is wrong with.
pub fn check_own_token(own: Own<'_>, wish: &TokenWish, now: Timestamp) -> Result<(), Vec<AccessError>> {
    none_of(wrong_with(own, own.role, wish, now).collect())
}

/// Whether a text can be the label of a token.
#[must_use]
pub fn is_label(text: &str) -> bool {
    text.chars().count() <= MAX_LABEL && !text.contains(char::is_control)
}

fn none_of(wrong: Vec<AccessError>) -> Result<(), Vec<AccessError>> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

fn wrong_with(
    own: Own<'_>,
    holder: Role,
    wish: &TokenWish,
    now: Timestamp,
) -> impl Iterator<Item = AccessError> {
    let ends = |end: Timestamp| end.0;
    let all = |test: &dyn Fn(Scope) -> bool| wish.scopes.iter().all(|scope| test(*scope));
    let wrong = [
        (!is_label(&wish.label), AccessError::Label),
        (wish.scopes.is_empty(), AccessError::NoScope),
        (!all(&|scope| own.scopes.contains(&scope)), AccessError::ScopeNotHeld),
        (!all(&|scope| covers(holder, scope)), AccessError::ScopeNotCovered),
        (wish.expires_at.is_some_and(|end| end.0 <= now.0), AccessError::Past),
        (
            own.expires_at.is_some_and(|own| wish.expires_at.is_none_or(|end| ends(end) > ends(own))),
            AccessError::OutlivesOwn,
        ),
    ];
    wrong.into_iter().filter_map(|(is_wrong, error)| is_wrong.then_some(error))
}

/// Whether somebody with the role `own` may make a member with the role `before` one with the role `after`, or none at
/// all, in an account with so many owners.
///
/// # Errors
/// Why not.
pub fn check_role(own: Role, before: Role, after: Option<Role>, owners: usize) -> Result<(), AccessError> {
    if !manages(own, before) {
        return Err(AccessError::MemberAbove);
    }
    if after.is_some_and(|after| !manages(own, after)) {
        return Err(AccessError::AboveOwnRole);
    }
    if before == Role::Owner && after != Some(Role::Owner) && owners <= 1 {
        return Err(AccessError::LastOwner);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        DateTime::from_timestamp(seconds, 0).expect("a time").into()
    }

    #[test]
    fn a_token_is_no_more_than_who_asks_and_who_holds_it() {
        let own = |role, scopes, end: Option<i64>| Own { role, scopes, expires_at: end.map(at) };
        let wish = |scopes: &[Scope], end: Option<i64>| TokenWish {
            label: String::new(),
            scopes: scopes.to_vec(),
            expires_at: end.map(at),
        };
        let all = &[Scope::Ingest, Scope::Read, Scope::Admin][..];
        for (own, holder, wish, wrong) in [
            (own(Role::Owner, all, None), Role::Owner, wish(all, None), vec![]),
            (own(Role::Admin, all, None), Role::Member, wish(&all[..2], Some(11)), vec![]),
            (own(Role::Admin, all, None), Role::Owner, wish(&all[..1], None), vec![AccessError::MemberAbove]),
            (
                own(Role::Member, &all[..2], None),
                Role::Member,
                wish(&all[..1], None),
                vec![AccessError::MemberAbove],
            ),
            (
                own(Role::Owner, &all[1..], None),
                Role::Viewer,
                wish(&all[..1], None),
                vec![AccessError::ScopeNotHeld, AccessError::ScopeNotCovered],
            ),
            (own(Role::Owner, all, Some(20)), Role::Owner, wish(all, Some(20)), vec![]),
            (
                own(Role::Owner, all, Some(20)),
                Role::Owner,
                wish(&[], Some(21)),
                vec![AccessError::NoScope, AccessError::OutlivesOwn],
            ),
            (own(Role::Owner, all, Some(20)), Role::Owner, wish(all, None), vec![AccessError::OutlivesOwn]),
            (own(Role::Owner, all, None), Role::Owner, wish(all, Some(10)), vec![AccessError::Past]),
        ] {
            let found = check_token(own, holder, &wish, at(10)).err().unwrap_or_default();
            assert_eq!(found, wrong, "{own:?} {holder:?} {wish:?}");
        }
    }

    #[test]
    fn a_token_of_ones_own_takes_no_role_and_gives_nothing_new() {
        let read = &[Scope::Read][..];
        let wish = |scopes: &[Scope]| TokenWish { label: String::new(), scopes: scopes.to_vec(), expires_at: None };
        let own = |role, scopes, end: Option<i64>| Own { role, scopes, expires_at: end.map(at) };
        for (own, wish, wrong) in [
            (own(Role::Viewer, read, None), wish(read), vec![]),
            (own(Role::Member, read, None), wish(&[Scope::Ingest]), vec![AccessError::ScopeNotHeld]),
            (own(Role::Viewer, &[Scope::Ingest][..], None), wish(&[Scope::Ingest]), vec![AccessError::ScopeNotCovered]),
            (own(Role::Viewer, read, Some(20)), wish(read), vec![AccessError::OutlivesOwn]),
        ] {
            assert_eq!(check_own_token(own, &wish, at(10)).err().unwrap_or_default(), wrong, "{own:?} {wish:?}");
        }
    }

    #[test]
    fn an_account_keeps_an_owner() {
        use Role::{Admin, Member, Owner};
        for (own, before, after, owners, answer) in [
            (Owner, Owner, Some(Admin), 2, Ok(())),
            (Owner, Owner, Some(Admin), 1, Err(AccessError::LastOwner)),
            (Owner, Owner, None, 1, Err(AccessError::LastOwner)),
            (Owner, Owner, Some(Owner), 1, Ok(())),
            (Owner, Member, Some(Owner), 1, Ok(())),
            (Admin, Member, Some(Admin), 1, Ok(())),
            (Admin, Admin, Some(Owner), 1, Err(AccessError::AboveOwnRole)),
            (Admin, Owner, None, 2, Err(AccessError::MemberAbove)),
            (Member, Member, None, 1, Err(AccessError::MemberAbove)),
        ] {
            assert_eq!(check_role(own, before, after, owners), answer, "{own:?} {before:?} {after:?}");
        }
    }
}
