//! Rules of who may give whom access to an account: nobody gives more than they have.

use chrono::TimeDelta;
use entity::{Timestamp, api_token::Scope, membership::Role};

use super::{
    role::{covers, manages},
    slug::Slug,
};

/// Characters of a token's label at the most.
const MAX_LABEL: usize = 200;

/// Tokens of an account that are good at one time, at the most.
pub const MAX_TOKENS: u64 = 1_000;

/// Members of an account at the most.
pub const MAX_MEMBERS: u64 = 10_000;

/// Invitations of an account that can be accepted at one time, at the most.
pub const MAX_INVITATIONS: u64 = 1_000;

/// How long an invitation can be accepted if nothing else is said, and at the most.
const INVITATION_DAYS: TimeDelta = TimeDelta::days(7);
const MAX_INVITATION_DAYS: TimeDelta = TimeDelta::days(30);

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
    /// A guest is one until a given time.
    #[error("a guest needs a time until which they are one")]
    NoEnd,
    /// Everybody else is a member until somebody ends it.
    #[error("only guests are members until a given time")]
    EndNotTaken,
    /// A guest would not be one for a moment.
    #[error("must lie in the future")]
    EndPast,
    /// The member it is about is a guest no longer.
    #[error("the member's time as a guest is over")]
    Over,
    /// An invitation would lie about for too long.
    #[error("must not lie more than 30 days ahead")]
    TooLate,
    /// There is no such invitation, or it can be accepted no more, or by somebody else only; it is not told which.
    #[error("there is no such invitation, or not for you, or not any more")]
    NoInvitation,
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

/// As what somebody is a member, or is to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What they may do.
    pub role: Role,
    /// Until when: for guests alone, and always for them.
    pub ends_at: Option<Timestamp>,
}

/// What an invitation is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationWish {
    /// Who alone may accept it; none if whoever shows the secret may.
    pub name: Option<Slug>,
    /// Whom it is for, in words.
    pub label: String,
    /// As what they become a member.
    pub grant: Grant,
    /// Until when it can be accepted; none for as long as usual.
    pub expires_at: Option<Timestamp>,
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
    holder: Grant,
    wish: &TokenWish,
    now: Timestamp,
) -> Result<(), Vec<AccessError>> {
    let ends = |end: Timestamp| end.0;
    let all = |test: &dyn Fn(Scope) -> bool| wish.scopes.iter().all(|scope| test(*scope));
    let wrong = [
        (!is_label(&wish.label), AccessError::Label),
        (wish.scopes.is_empty(), AccessError::NoScope),
        (!all(&|scope| own.scopes.contains(&scope)), AccessError::ScopeNotHeld),
        (!all(&|scope| covers(holder.role, scope)), AccessError::ScopeNotCovered),
        (wish.expires_at.is_some_and(|end| end.0 <= now.0), AccessError::Past),
        (
            own.expires_at.is_some_and(|own| wish.expires_at.is_none_or(|end| ends(end) > ends(own))),
            AccessError::OutlivesOwn,
        ),
        (!manages(own.role, holder.role), AccessError::MemberAbove),
        (is_over(holder.ends_at, now), AccessError::Over),
    ];
    all_of(wrong)
}

/// Whether somebody with `own`, whose membership ends at a time if at all, may make such a token for themselves. That takes
/// no role of its own: it gives nobody anything they have not.
///
/// # Errors
/// What is wrong, by what it is wrong with.
pub fn check_own_token(
    own: Own<'_>,
    ends_at: Option<Timestamp>,
    wish: &TokenWish,
    now: Timestamp,
) -> Result<(), Vec<AccessError>> {
    let holder = Grant { role: own.role, ends_at };
    let mut wrong = check_token(own, holder, wish, now).err().unwrap_or_default();
    wrong.retain(|error| *error != AccessError::MemberAbove);
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Whether somebody with the role `own` may make somebody a member so; otherwise all that speaks against it.
///
/// # Errors
/// What is wrong.
pub fn check_grant(own: Role, grant: Grant, now: Timestamp) -> Result<(), Vec<AccessError>> {
    let is_guest = grant.role == Role::Guest;
    let wrong = [
        (!manages(own, grant.role), AccessError::AboveOwnRole),
        (is_guest && grant.ends_at.is_none(), AccessError::NoEnd),
        (!is_guest && grant.ends_at.is_some(), AccessError::EndNotTaken),
        (is_guest && is_over(grant.ends_at, now), AccessError::EndPast),
    ];
    all_of(wrong)
}

/// Whether somebody with the role `own` may make of a member with the role `before` what `after` says, or none at all, in
/// an account with so many owners.
///
/// # Errors
/// What is wrong.
pub fn check_change(
    own: Role,
    before: Role,
    after: Option<Grant>,
    owners: usize,
    now: Timestamp,
) -> Result<(), Vec<AccessError>> {
    if !manages(own, before) {
        return Err(vec![AccessError::MemberAbove]);
    }
    if let Some(after) = after {
        check_grant(own, after, now)?;
    }
    if before == Role::Owner && after.is_none_or(|after| after.role != Role::Owner) && owners <= 1 {
        return Err(vec![AccessError::LastOwner]);
    }
    Ok(())
}

/// Whether somebody with the role `own` may invite somebody so, and until when the invitation can be accepted; otherwise all
/// that speaks against it.
///
/// # Errors
/// What is wrong.
pub fn check_invitation(
    own: Role,
    wish: &InvitationWish,
    now: Timestamp,
) -> Result<Timestamp, Vec<AccessError>> {
    let end = wish.expires_at.map_or(now.0 + INVITATION_DAYS, |end| end.0);
    let mut wrong = check_grant(own, wish.grant, now).err().unwrap_or_default();
    let more = [
        (!is_label(&wish.label), AccessError::Label),
        (end <= now.0, AccessError::Past),
        (end > now.0 + MAX_INVITATION_DAYS, AccessError::TooLate),
    ];
    wrong.extend(all_of(more).err().unwrap_or_default());
    if wrong.is_empty() { Ok(end.into()) } else { Err(wrong) }
}

/// Whether a text can be the label of a token or an invitation.
#[must_use]
pub fn is_label(text: &str) -> bool {
    text.chars().count() <= MAX_LABEL && !text.contains(char::is_control)
}

fn all_of<const N: usize>(wrong: [(bool, AccessError); N]) -> Result<(), Vec<AccessError>> {
    let wrong: Vec<AccessError> =
        wrong.into_iter().filter_map(|(is_wrong, error)| is_wrong.then_some(error)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
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
            let holder = Grant { role: holder, ends_at: None };
            let found = check_token(own, holder, &wish, at(10)).err().unwrap_or_default();
            assert_eq!(found, wrong, "{own:?} {holder:?} {wish:?}");
        }
    }

    #[test]
    fn a_token_of_ones_own_takes_no_role_and_gives_nothing_new() {
        let read = &[Scope::Read][..];
        let wish =
            |scopes: &[Scope]| TokenWish { label: String::new(), scopes: scopes.to_vec(), expires_at: None };
        let own = |role, scopes, end: Option<i64>| Own { role, scopes, expires_at: end.map(at) };
        let ingest = &[Scope::Ingest][..];
        for (own, wish, wrong) in [
            (own(Role::Viewer, read, None), wish(read), vec![]),
            (own(Role::Guest, read, None), wish(read), vec![]),
            (own(Role::Member, read, None), wish(ingest), vec![AccessError::ScopeNotHeld]),
            (own(Role::Viewer, ingest, None), wish(ingest), vec![AccessError::ScopeNotCovered]),
            (own(Role::Viewer, read, Some(20)), wish(read), vec![AccessError::OutlivesOwn]),
        ] {
            let found = check_own_token(own, None, &wish, at(10)).err().unwrap_or_default();
            assert_eq!(found, wrong, "{own:?} {wish:?}");
        }
    }

    #[test]
    fn a_token_is_given_to_no_guest_whose_time_is_over() {
        let own = Own { role: Role::Owner, scopes: &[Scope::Read], expires_at: None };
        let wish = TokenWish { label: String::new(), scopes: vec![Scope::Read], expires_at: None };
        for (end, answer) in [(11, Ok(())), (10, Err(vec![AccessError::Over]))] {
            let holder = Grant { role: Role::Guest, ends_at: Some(at(end)) };
            assert_eq!(check_token(own, holder, &wish, at(10)), answer, "{end}");
        }
    }

    #[test]
    fn guests_have_an_end_and_nobody_else_has() {
        use Role::{Admin, Guest, Member, Owner, Viewer};
        for (own, role, end, wrong) in [
            (Owner, Guest, Some(11), vec![]),
            (Admin, Guest, Some(11), vec![]),
            (Admin, Guest, Some(10), vec![AccessError::EndPast]),
            (Admin, Guest, None, vec![AccessError::NoEnd]),
            (Admin, Viewer, Some(11), vec![AccessError::EndNotTaken]),
            (Admin, Owner, Some(11), vec![AccessError::AboveOwnRole, AccessError::EndNotTaken]),
            (Member, Guest, Some(11), vec![AccessError::AboveOwnRole]),
            (Guest, Guest, Some(11), vec![AccessError::AboveOwnRole]),
        ] {
            let grant = Grant { role, ends_at: end.map(at) };
            assert_eq!(check_grant(own, grant, at(10)).err().unwrap_or_default(), wrong, "{own:?} {grant:?}");
        }
    }

    #[test]
    fn an_invitation_does_not_lie_about_for_ever() {
        const DAY: i64 = 86_400;
        let wish = |end: Option<i64>, label: &str| InvitationWish {
            name: None,
            label: label.to_owned(),
            grant: Grant { role: Role::Member, ends_at: None },
            expires_at: end.map(at),
        };
        let long = "x".repeat(MAX_LABEL + 1);
        for (wish, answer) in [
            (wish(None, "a@example.com"), Ok(at(7 * DAY + 10))),
            (wish(Some(11), ""), Ok(at(11))),
            (wish(Some(10), ""), Err(vec![AccessError::Past])),
            (wish(Some(30 * DAY + 10), ""), Ok(at(30 * DAY + 10))),
            (wish(Some(30 * DAY + 11), &long), Err(vec![AccessError::Label, AccessError::TooLate])),
        ] {
            assert_eq!(check_invitation(Role::Admin, &wish, at(10)), answer, "{wish:?}");
        }
        let wish = wish(Some(10), "");
        let answer = Err(vec![AccessError::AboveOwnRole, AccessError::Past]);
        assert_eq!(check_invitation(Role::Viewer, &wish, at(10)), answer);
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
            let after = after.map(|role| Grant { role, ends_at: None });
            let found = check_change(own, before, after, owners, at(10));
            assert_eq!(
                found,
                answer.map_err(|error: AccessError| vec![error]),
                "{own:?} {before:?} {after:?}"
            );
        }
    }
}
