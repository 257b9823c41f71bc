//! Access rules of an account: nobody can grant more access than they have.

use chrono::TimeDelta;
use entity::{Timestamp, api_token::Scope, membership::Role};

use super::{
    role::{covers, manages},
    slug::Slug,
};

/// The largest length of a token's label, in characters.
const MAX_LABEL: usize = 200;

/// The largest number of tokens of an account at one time that are valid or [new](NEW_TOKEN_AGE).
pub const MAX_TOKENS: u64 = 1_000;

/// The age up to which tokens count towards [`MAX_TOKENS`] although they have ended: short lifetimes would
/// otherwise make any number of rows.
pub const NEW_TOKEN_AGE: TimeDelta = TimeDelta::days(1);

/// The largest number of members of an account.
pub const MAX_MEMBERS: u64 = 10_000;

/// The largest number of acceptable invitations of an account at one time.
pub const MAX_INVITATIONS: u64 = 1_000;

/// The default lifetime of an invitation; the constant below is its maximum.
const INVITATION_DAYS: TimeDelta = TimeDelta::days(7);
const MAX_INVITATION_DAYS: TimeDelta = TimeDelta::days(30);

/// The reason for refusing a change of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// The text is not a valid user name.
    #[error("must be 1 to 63 lower-case letters, digits, '-' or '_', beginning with a letter or digit")]
    Name,
    /// The text is not a valid token label.
    #[error("must have at most {MAX_LABEL} characters, none of them a control character")]
    Label,
    /// The token has no scope and would grant nothing.
    #[error("at least one scope is needed")]
    NoScope,
    /// The caller's own token lacks one of the requested scopes.
    #[error("the requesting token must have every scope itself")]
    ScopeNotHeld,
    /// The holder's role does not cover one of the scopes.
    #[error("the role of the user does not cover every scope")]
    ScopeNotCovered,
    /// The expiry is not in the future.
    #[error("must lie in the future")]
    ExpiryPast,
    /// The token would outlive the caller's own token.
    #[error("must be given, and not be later than the expiry of the requesting token")]
    OutlivesOwn,
    /// The role is above the caller's role.
    #[error("is above your own role")]
    AboveOwnRole,
    /// The affected member has a role above the caller's role.
    #[error("the member's role is above your own")]
    MemberAbove,
    /// A guest's membership needs an end.
    #[error("a guest membership needs an end")]
    EndMissing,
    /// Only a guest's membership can have an end.
    #[error("only a guest membership can have an end")]
    EndNotAllowed,
    /// The end of a guest's membership is not in the future.
    #[error("must lie in the future")]
    EndPast,
    /// The affected guest's membership has ended.
    #[error("the guest membership has ended")]
    MembershipEnded,
    /// The invitation's expiry is more than 30 days ahead.
    #[error("must not be more than 30 days ahead")]
    TooLate,
    /// The invitation does not exist, can no longer be accepted, or is for another user. The error does
    /// not reveal which.
    #[error("there is no such invitation, or it is for another user or no longer open")]
    NoInvitation,
    /// The user is already a member.
    #[error("is already a member")]
    AlreadyMember,
    /// The account would lose its last owner.
    #[error("is the account's last owner")]
    LastOwner,
    /// The account has reached its limit.
    #[error("the account has reached its limit")]
    TooMany,
}

/// The terms of a membership, current or proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// The end of the membership. Required for guests, `None` for all others.
    pub ends_at: Option<Timestamp>,
}

/// The properties of an invitation to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvitation {
    /// The only user that may accept it. `None` allows every holder of the secret.
    pub name: Option<Slug>,
    /// A description of the invited person.
    pub label: String,
    /// The terms of the membership that it grants.
    pub grant: Grant,
    /// The time until which it can be accepted. `None` for the default lifetime.
    pub expires_at: Option<Timestamp>,
}

/// The properties of a token to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// The label.
    pub label: String,
    /// The scopes.
    pub scopes: Vec<Scope>,
    /// The expiry. `None` for no expiry.
    pub expires_at: Option<Timestamp>,
}

/// The access of the caller.
#[derive(Clone, Copy, Debug)]
pub struct CallerAccess<'a> {
    /// The caller's role in the account.
    pub role: Role,
    /// The scopes of the caller's token.
    pub scopes: &'a [Scope],
    /// The expiry of the caller's token. `None` for no expiry.
    pub expires_at: Option<Timestamp>,
}

/// Returns true if a membership with this end is over. A membership without an end is never over.
#[must_use]
pub fn has_ended(ends_at: Option<Timestamp>, now: Timestamp) -> bool {
    ends_at.is_some_and(|end| end.0 <= now.0)
}

/// Checks that the caller may create this token for the member `holder`.
///
/// # Errors
/// Returns every violated rule.
pub fn check_token(
    caller: CallerAccess<'_>,
    holder: Grant,
    token: &NewToken,
    now: Timestamp,
) -> Result<(), Vec<AccessError>> {
    let all_scopes = |test: &dyn Fn(Scope) -> bool| token.scopes.iter().all(|scope| test(*scope));
    let rules = [
        (!is_label(&token.label), AccessError::Label),
        (token.scopes.is_empty(), AccessError::NoScope),
        (!all_scopes(&|scope| caller.scopes.contains(&scope)), AccessError::ScopeNotHeld),
        (!all_scopes(&|scope| covers(holder.role, scope)), AccessError::ScopeNotCovered),
        (token.expires_at.is_some_and(|end| end.0 <= now.0), AccessError::ExpiryPast),
        (
            caller.expires_at.is_some_and(|own_end| token.expires_at.is_none_or(|end| end.0 > own_end.0)),
            AccessError::OutlivesOwn,
        ),
        (!manages(caller.role, holder.role), AccessError::MemberAbove),
        (has_ended(holder.ends_at, now), AccessError::MembershipEnded),
    ];
    collect_violations(rules)
}

/// Checks that the caller, whose membership ends at `ends_at`, may create this token for themselves.
/// This requires no particular role, because it grants nothing that the caller does not have.
///
/// # Errors
/// Returns every violated rule.
pub fn check_own_token(
    caller: CallerAccess<'_>,
    ends_at: Option<Timestamp>,
    token: &NewToken,
    now: Timestamp,
) -> Result<(), Vec<AccessError>> {
    let holder = Grant { role: caller.role, ends_at };
    let mut errors = check_token(caller, holder, token, now).err().unwrap_or_default();
    errors.retain(|error| *error != AccessError::MemberAbove);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Checks that a caller with the role `caller_role` may grant this membership.
///
/// # Errors
/// Returns every violated rule.
pub fn check_grant(caller_role: Role, grant: Grant, now: Timestamp) -> Result<(), Vec<AccessError>> {
    let is_guest = grant.role == Role::Guest;
    let rules = [
        (!manages(caller_role, grant.role), AccessError::AboveOwnRole),
        (is_guest && grant.ends_at.is_none(), AccessError::EndMissing),
        (!is_guest && grant.ends_at.is_some(), AccessError::EndNotAllowed),
        (is_guest && has_ended(grant.ends_at, now), AccessError::EndPast),
    ];
    collect_violations(rules)
}

/// Checks that a caller with the role `caller_role` may change a member with the role `before` to `after`,
/// or remove the member if `after` is `None`. `owners` is the account's number of owners.
///
/// # Errors
/// Returns every violated rule.
pub fn check_change(
    caller_role: Role,
    before: Role,
    after: Option<Grant>,
    owners: usize,
    now: Timestamp,
) -> Result<(), Vec<AccessError>> {
    if !manages(caller_role, before) {
        return Err(vec![AccessError::MemberAbove]);
    }
    if let Some(after) = after {
        check_grant(caller_role, after, now)?;
    }
    if before == Role::Owner && after.is_none_or(|after| after.role != Role::Owner) && owners <= 1 {
        return Err(vec![AccessError::LastOwner]);
    }
    Ok(())
}

/// Checks that a caller with the role `caller_role` may create this invitation, and returns its expiry.
///
/// # Errors
/// Returns every violated rule.
pub fn check_invitation(
    caller_role: Role,
    invitation: &NewInvitation,
    now: Timestamp,
) -> Result<Timestamp, Vec<AccessError>> {
    let end = invitation.expires_at.map_or(now.0 + INVITATION_DAYS, |end| end.0);
    let mut errors = check_grant(caller_role, invitation.grant, now).err().unwrap_or_default();
    let rules = [
        (!is_label(&invitation.label), AccessError::Label),
        (end <= now.0, AccessError::ExpiryPast),
        (end > now.0 + MAX_INVITATION_DAYS, AccessError::TooLate),
    ];
    errors.extend(collect_violations(rules).err().unwrap_or_default());
    if errors.is_empty() { Ok(end.into()) } else { Err(errors) }
}

/// The error for a text that contains an unknown scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one or more of ingest, read and admin, separated by spaces")]
pub struct NoScope;

/// Returns the name of a scope in every external format.
#[must_use]
pub fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Ingest => "ingest",
        Scope::Read => "read",
        Scope::Admin => "admin",
    }
}

/// Parses scopes separated by spaces and removes duplicates. Returns an empty list if the text names
/// none.
///
/// # Errors
/// Returns [`NoScope`] if a word is not a scope.
pub fn parse_scopes(text: &str) -> Result<Vec<Scope>, NoScope> {
    let scope = |name: &str| match name {
        "ingest" => Ok(Scope::Ingest),
        "read" => Ok(Scope::Read),
        "admin" => Ok(Scope::Admin),
        _ => Err(NoScope),
    };
    let mut scopes: Vec<Scope> = text.split_ascii_whitespace().map(scope).collect::<Result<_, _>>()?;
    scopes.sort_unstable();
    scopes.dedup();
    Ok(scopes)
}

/// Returns true if the text is a valid label of a token or an invitation.
#[must_use]
pub fn is_label(text: &str) -> bool {
    text.chars().count() <= MAX_LABEL && !text.contains(char::is_control)
}

fn collect_violations<const N: usize>(rules: [(bool, AccessError); N]) -> Result<(), Vec<AccessError>> {
    let violations: Vec<AccessError> =
        rules.into_iter().filter_map(|(is_violated, error)| is_violated.then_some(error)).collect();
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        DateTime::from_timestamp(seconds, 0).expect("a time").into()
    }

    #[test]
    fn scopes_are_named_with_spaces_between_them() {
        use Scope::{Admin, Ingest, Read};
        for (text, scopes) in [
            ("", Ok(vec![])),
            (" ", Ok(vec![])),
            ("ingest", Ok(vec![Ingest])),
            ("read  ingest read", Ok(vec![Ingest, Read])),
            ("admin read ingest", Ok(vec![Ingest, Read, Admin])),
            ("Ingest", Err(NoScope)),
            ("ingest,read", Err(NoScope)),
        ] {
            assert_eq!(parse_scopes(text), scopes, "{text}");
        }
    }

    #[test]
    fn a_token_is_no_more_than_who_asks_and_who_holds_it() {
        let caller = |role, scopes, end: Option<i64>| CallerAccess { role, scopes, expires_at: end.map(at) };
        let token = |scopes: &[Scope], end: Option<i64>| NewToken {
            label: String::new(),
            scopes: scopes.to_vec(),
            expires_at: end.map(at),
        };
        let all_scopes = &[Scope::Ingest, Scope::Read, Scope::Admin][..];
        for (caller, holder, token, expected) in [
            (caller(Role::Owner, all_scopes, None), Role::Owner, token(all_scopes, None), vec![]),
            (caller(Role::Admin, all_scopes, None), Role::Member, token(&all_scopes[..2], Some(11)), vec![]),
            (
                caller(Role::Admin, all_scopes, None),
                Role::Owner,
                token(&all_scopes[..1], None),
                vec![AccessError::MemberAbove],
            ),
            (
                caller(Role::Member, &all_scopes[..2], None),
                Role::Member,
                token(&all_scopes[..1], None),
                vec![AccessError::MemberAbove],
            ),
            (
                caller(Role::Owner, &all_scopes[1..], None),
                Role::Viewer,
                token(&all_scopes[..1], None),
                vec![AccessError::ScopeNotHeld, AccessError::ScopeNotCovered],
            ),
            (caller(Role::Owner, all_scopes, Some(20)), Role::Owner, token(all_scopes, Some(20)), vec![]),
            (
                caller(Role::Owner, all_scopes, Some(20)),
                Role::Owner,
                token(&[], Some(21)),
                vec![AccessError::NoScope, AccessError::OutlivesOwn],
            ),
            (
                caller(Role::Owner, all_scopes, Some(20)),
                Role::Owner,
                token(all_scopes, None),
                vec![AccessError::OutlivesOwn],
            ),
            (
                caller(Role::Owner, all_scopes, None),
                Role::Owner,
                token(all_scopes, Some(10)),
                vec![AccessError::ExpiryPast],
            ),
        ] {
            let holder = Grant { role: holder, ends_at: None };
            let errors = check_token(caller, holder, &token, at(10)).err().unwrap_or_default();
            assert_eq!(errors, expected, "{caller:?} {holder:?} {token:?}");
        }
    }

    #[test]
    fn a_token_of_ones_own_takes_no_role_and_gives_nothing_new() {
        let read = &[Scope::Read][..];
        let token =
            |scopes: &[Scope]| NewToken { label: String::new(), scopes: scopes.to_vec(), expires_at: None };
        let caller = |role, scopes, end: Option<i64>| CallerAccess { role, scopes, expires_at: end.map(at) };
        let ingest = &[Scope::Ingest][..];
        for (caller, token, expected) in [
            (caller(Role::Viewer, read, None), token(read), vec![]),
            (caller(Role::Guest, read, None), token(read), vec![]),
            (caller(Role::Member, read, None), token(ingest), vec![AccessError::ScopeNotHeld]),
            (caller(Role::Viewer, ingest, None), token(ingest), vec![AccessError::ScopeNotCovered]),
            (caller(Role::Viewer, read, Some(20)), token(read), vec![AccessError::OutlivesOwn]),
        ] {
            let errors = check_own_token(caller, None, &token, at(10)).err().unwrap_or_default();
            assert_eq!(errors, expected, "{caller:?} {token:?}");
        }
    }

    #[test]
    fn a_token_is_given_to_no_guest_whose_time_is_over() {
        let caller = CallerAccess { role: Role::Owner, scopes: &[Scope::Read], expires_at: None };
        let token = NewToken { label: String::new(), scopes: vec![Scope::Read], expires_at: None };
        for (end, answer) in [(11, Ok(())), (10, Err(vec![AccessError::MembershipEnded]))] {
            let holder = Grant { role: Role::Guest, ends_at: Some(at(end)) };
            assert_eq!(check_token(caller, holder, &token, at(10)), answer, "{end}");
        }
    }

    #[test]
    fn guests_have_an_end_and_nobody_else_has() {
        use Role::{Admin, Guest, Member, Owner, Viewer};
        for (caller_role, role, end, expected) in [
            (Owner, Guest, Some(11), vec![]),
            (Admin, Guest, Some(11), vec![]),
            (Admin, Guest, Some(10), vec![AccessError::EndPast]),
            (Admin, Guest, None, vec![AccessError::EndMissing]),
            (Admin, Viewer, Some(11), vec![AccessError::EndNotAllowed]),
            (Admin, Owner, Some(11), vec![AccessError::AboveOwnRole, AccessError::EndNotAllowed]),
            (Member, Guest, Some(11), vec![AccessError::AboveOwnRole]),
            (Guest, Guest, Some(11), vec![AccessError::AboveOwnRole]),
        ] {
            let grant = Grant { role, ends_at: end.map(at) };
            assert_eq!(
                check_grant(caller_role, grant, at(10)).err().unwrap_or_default(),
                expected,
                "{caller_role:?} {grant:?}"
            );
        }
    }

    #[test]
    fn an_invitation_does_not_lie_about_for_ever() {
        const DAY: i64 = 86_400;
        let invitation = |end: Option<i64>, label: &str| NewInvitation {
            name: None,
            label: label.to_owned(),
            grant: Grant { role: Role::Member, ends_at: None },
            expires_at: end.map(at),
        };
        let long = "x".repeat(MAX_LABEL + 1);
        for (invitation, answer) in [
            (invitation(None, "a@example.com"), Ok(at(7 * DAY + 10))),
            (invitation(Some(11), ""), Ok(at(11))),
            (invitation(Some(10), ""), Err(vec![AccessError::ExpiryPast])),
            (invitation(Some(30 * DAY + 10), ""), Ok(at(30 * DAY + 10))),
            (invitation(Some(30 * DAY + 11), &long), Err(vec![AccessError::Label, AccessError::TooLate])),
        ] {
            assert_eq!(check_invitation(Role::Admin, &invitation, at(10)), answer, "{invitation:?}");
        }
        let invitation = invitation(Some(10), "");
        let answer = Err(vec![AccessError::AboveOwnRole, AccessError::ExpiryPast]);
        assert_eq!(check_invitation(Role::Viewer, &invitation, at(10)), answer);
    }

    #[test]
    fn an_account_keeps_an_owner() {
        use Role::{Admin, Member, Owner};
        for (caller_role, before, after, owners, answer) in [
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
            let result = check_change(caller_role, before, after, owners, at(10));
            assert_eq!(
                result,
                answer.map_err(|error: AccessError| vec![error]),
                "{caller_role:?} {before:?} {after:?}"
            );
        }
    }
}
