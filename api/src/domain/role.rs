//! What a member's role lets a token of theirs be used for.

use entity::{api_token::Scope, membership::Role};

/// Whether a member with this role may have a token with this scope.
#[must_use]
pub fn covers(role: Role, scope: Scope) -> bool {
    match role {
        Role::Owner | Role::Admin => true,
        Role::Member => scope != Scope::Admin,
        Role::Viewer => scope == Scope::Read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_covers_what_it_says() {
        for (role, ingest, read, admin) in [
            (Role::Owner, true, true, true),
            (Role::Admin, true, true, true),
            (Role::Member, true, true, false),
            (Role::Viewer, false, true, false),
        ] {
            let covered = [Scope::Ingest, Scope::Read, Scope::Admin].map(|scope| covers(role, scope));
            assert_eq!(covered, [ingest, read, admin], "{role:?}");
        }
    }
}
