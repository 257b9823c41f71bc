//! Roles of members: the scopes that a role covers, and the roles that it can manage.

use entity::{api_token::Scope, membership::Role};

/// Returns true if a member with this role may have a token with this scope.
#[must_use]
pub fn covers(role: Role, scope: Scope) -> bool {
    match role {
        Role::Owner | Role::Admin => true,
        Role::Member => scope != Scope::Admin,
        Role::Viewer | Role::Guest => scope == Scope::Read,
    }
}

/// Returns all scopes that a member with this role may have.
#[must_use]
pub fn scopes_of(role: Role) -> Vec<Scope> {
    [Scope::Ingest, Scope::Read, Scope::Admin].into_iter().filter(|scope| covers(role, *scope)).collect()
}

/// Returns true if a member with the role `caller_role` may grant and revoke `managed_role`.
#[must_use]
pub fn manages(caller_role: Role, managed_role: Role) -> bool {
    covers(caller_role, Scope::Admin) && rank(managed_role) <= rank(caller_role)
}

/// Returns the lower of two roles.
#[must_use]
pub fn lower_role(a: Role, b: Role) -> Role {
    if rank(a) <= rank(b) { a } else { b }
}

fn rank(role: Role) -> u8 {
    match role {
        Role::Viewer | Role::Guest => 0,
        Role::Member => 1,
        Role::Admin => 2,
        Role::Owner => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_decides_on_more_than_they_are() {
        let roles = [Role::Owner, Role::Admin, Role::Member, Role::Viewer, Role::Guest];
        for (own, managed) in [
            (Role::Owner, [true; 5]),
            (Role::Admin, [false, true, true, true, true]),
            (Role::Member, [false; 5]),
            (Role::Viewer, [false; 5]),
            (Role::Guest, [false; 5]),
        ] {
            assert_eq!(roles.map(|other| manages(own, other)), managed, "{own:?}");
        }
    }

    #[test]
    fn a_role_covers_what_it_says() {
        for (role, ingest, read, admin) in [
            (Role::Owner, true, true, true),
            (Role::Admin, true, true, true),
            (Role::Member, true, true, false),
            (Role::Viewer, false, true, false),
            (Role::Guest, false, true, false),
        ] {
            let covered = [Scope::Ingest, Scope::Read, Scope::Admin].map(|scope| covers(role, scope));
            assert_eq!(covered, [ingest, read, admin], "{role:?}");
        }
    }
}
