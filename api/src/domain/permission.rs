//! Permissions: the changes that each role allows, to the caller's own objects or to all of the account.

use entity::{audit_entry::Action, ids::UserId, membership::Role};

/// A group of actions that a role allows or refuses together: a row of the table in `docs/access.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// Set the tags of a cluster.
    TagCluster,
    /// Set the notes of a cluster.
    AnnotateCluster,
    /// Keep a cluster from being stopped for idleness.
    KeepClusterAlive,
    /// Set the desired state of a cluster.
    StopCluster,
    /// Set the triage status of an error group. A group belongs to the owners of the clusters on which
    /// its errors occurred.
    TriageErrors,
    /// Create tokens. A token belongs to the user that it authenticates.
    CreateToken,
    /// Revoke tokens.
    RevokeToken,
    /// Create, change and delete private views. A view belongs to the user who created it.
    KeepView,
    /// Create, change and delete shared views.
    ShareView,
    /// Give a cluster another owner.
    HandOverCluster,
    /// Delete a cluster.
    DeleteCluster,
    /// Delete a performance report.
    DeletePerformanceReport,
    /// Delete other data of the account, and quarantine or restore clusters.
    DeleteData,
    /// Set policies, rates and mutes; see and set alert rules.
    ChangeSettings,
    /// See and manage members, invitations and the tokens of members.
    ManageMembers,
    /// Read the audit log.
    ReadAuditLog,
    /// Delete the account.
    DeleteAccount,
}

/// The objects to which a permission extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No object.
    Nothing,
    /// The objects of the caller.
    Own,
    /// All objects of the account.
    Everything,
}

/// The reason why a permission is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The role does not have the permission, or the credentials lack the scope `admin`.
    #[error("the token lacks the scope 'admin'")]
    MissingAdmin,
    /// The role has the permission, but the credentials have fewer scopes than the role covers.
    #[error("the token has fewer scopes than its user")]
    NarrowToken,
    /// Only owners of the account have the permission.
    #[error("only an owner can delete the account")]
    OwnersOnly,
    /// The role has the permission for own objects only.
    #[error("it belongs to another user: only owners and admins of the account can change it")]
    NotOwner,
}

impl Permission {
    /// Returns the permission that an audited action needs. `None` for actions that depend on no role.
    #[must_use]
    pub fn for_action(action: Action) -> Option<Self> {
        Some(match action {
            Action::SetClusterTags => Self::TagCluster,
            Action::SetClusterNotes => Self::AnnotateCluster,
            Action::KeepAlive => Self::KeepClusterAlive,
            Action::SetDesiredState => Self::StopCluster,
            Action::SetErrorGroupStatus => Self::TriageErrors,
            Action::CreateToken => Self::CreateToken,
            Action::RevokeToken => Self::RevokeToken,
            Action::CreateSavedView | Action::DeleteSavedView | Action::UpdateSavedView => Self::ShareView,
            Action::HandOverCluster => Self::HandOverCluster,
            Action::DeleteCluster => Self::DeleteCluster,
            Action::DeletePerformanceReport => Self::DeletePerformanceReport,
            Action::DeleteData | Action::DeleteUser | Action::ForgetToken | Action::RestoreToken => {
                Self::DeleteData
            }
            Action::CreateAlertRule
            | Action::DeleteAlertRule
            | Action::DeleteCostRate
            | Action::MuteFlag
            | Action::SetCostRate
            | Action::SetDataPolicy
            | Action::SetIdlePolicy
            | Action::SetTokenPolicy
            | Action::TestAlertRule
            | Action::UnmuteFlag
            | Action::UpdateAlertRule => Self::ChangeSettings,
            Action::AddMember
            | Action::InviteMember
            | Action::RemoveMember
            | Action::RevokeInvitation
            | Action::SetMemberRole => Self::ManageMembers,
            Action::DeleteAccount => Self::DeleteAccount,
            Action::AcceptInvitation
            | Action::CreateAccount
            | Action::CreateSignInLink
            | Action::EndSession
            | Action::JoinBySignIn
            | Action::LinkUser
            | Action::ReadCode
            | Action::ReadProfiles
            | Action::SetDefaultAccount
            | Action::SetPassword
            | Action::SetQuota
            | Action::SignIn
            | Action::SignOutEverywhere
            | Action::StorePerformanceReport => return None,
        })
    }

    /// Returns the objects to which the permission extends for a role.
    #[must_use]
    pub fn reach(self, role: Role) -> Reach {
        use Reach::{Everything, Nothing, Own};
        let [owner, admin, member, viewer, guest] = match self {
            Self::TagCluster
            | Self::AnnotateCluster
            | Self::KeepClusterAlive
            | Self::StopCluster
            | Self::TriageErrors
            | Self::ShareView => [Everything, Everything, Own, Nothing, Nothing],
            // Nobody but its user sees a private view.
            Self::KeepView => [Own; 5],
            // A token grants no more than its creator has, so that no role needs more than its own.
            Self::CreateToken | Self::RevokeToken => [Everything, Everything, Own, Own, Own],
            Self::HandOverCluster
            | Self::DeleteCluster
            | Self::DeletePerformanceReport
            | Self::DeleteData
            | Self::ChangeSettings
            | Self::ManageMembers
            | Self::ReadAuditLog => [Everything, Everything, Nothing, Nothing, Nothing],
            Self::DeleteAccount => [Everything, Nothing, Nothing, Nothing, Nothing],
        };
        match role {
            Role::Owner => owner,
            Role::Admin => admin,
            Role::Member => member,
            Role::Viewer => viewer,
            Role::Guest => guest,
        }
    }
}

/// The caller of a request, as far as permissions depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// The user.
    pub user: UserId,
    /// The user's current role in the account.
    pub role: Role,
    /// True if the credentials allow what the role allows: they have the scope `admin`, or every scope
    /// that the role covers.
    pub is_full: bool,
}

impl Rights {
    /// Returns the objects to which a permission of the caller extends.
    #[must_use]
    pub fn reach(self, permission: Permission) -> Reach {
        if self.is_full { permission.reach(self.role) } else { Reach::Nothing }
    }

    /// Returns the reason why the caller has a permission for no object.
    #[must_use]
    pub fn denial(self, permission: Permission) -> Denial {
        match (permission.reach(self.role), permission.reach(Role::Admin)) {
            (Reach::Own, _) if self.is_full => Denial::NotOwner,
            (Reach::Own, _) => Denial::NarrowToken,
            (Reach::Nothing, Reach::Nothing) if self.is_full && self.role == Role::Admin => {
                Denial::OwnersOnly
            }
            _ => Denial::MissingAdmin,
        }
    }

    /// Returns true if the caller has a permission for an object of `owner`. `None` for an object without
    /// an owner.
    #[must_use]
    pub fn permit(self, permission: Permission, owner: Option<UserId>) -> bool {
        match self.reach(permission) {
            Reach::Nothing => false,
            Reach::Own => owner == Some(self.user),
            Reach::Everything => true,
        }
    }

    /// Returns the user to whom an object must belong for a permission. `None` if it may belong to anyone.
    /// Statements of a change check it again, because the owner may change until then.
    #[must_use]
    pub fn required_owner(self, permission: Permission) -> Option<UserId> {
        (self.reach(permission) != Reach::Everything).then_some(self.user)
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::Iterable;
    use uuid::Uuid;

    use super::{
        Permission::{CreateToken, DeleteAccount, ManageMembers, StopCluster},
        *,
    };

    #[test]
    fn only_the_own_objects_of_a_member_can_be_changed() {
        let (own, other) = (UserId(Uuid::from_u128(1)), UserId(Uuid::from_u128(2)));
        for (role, is_full, permission, expected) in [
            // An own object, one of another user, and one without an owner.
            (Role::Owner, true, DeleteAccount, [true; 3]),
            (Role::Admin, true, DeleteAccount, [false; 3]),
            (Role::Admin, true, StopCluster, [true; 3]),
            (Role::Admin, false, StopCluster, [false; 3]),
            (Role::Member, true, StopCluster, [true, false, false]),
            (Role::Member, false, StopCluster, [false; 3]),
            (Role::Member, true, ManageMembers, [false; 3]),
            (Role::Viewer, true, StopCluster, [false; 3]),
            (Role::Guest, true, CreateToken, [true, false, false]),
        ] {
            let rights = Rights { user: own, role, is_full };
            let found = [Some(own), Some(other), None].map(|owner| rights.permit(permission, owner));
            assert_eq!(found, expected, "{rights:?} {permission:?}");
        }
    }

    #[test]
    fn a_lower_role_reaches_no_more() {
        let size = |reach: Reach| match reach {
            Reach::Nothing => 0,
            Reach::Own => 1,
            Reach::Everything => 2,
        };
        for permission in Action::iter().filter_map(Permission::for_action) {
            let reached = [Role::Guest, Role::Viewer, Role::Member, Role::Admin, Role::Owner]
                .map(|role| size(permission.reach(role)));
            assert!(reached.is_sorted(), "{permission:?} {reached:?}");
            assert_eq!(reached[4], 2, "{permission:?}");
        }
    }
}
