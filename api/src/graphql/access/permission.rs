//! The permissions of the viewer: the checks of mutations and lists, and the fields `viewerCan…`. Both
//! follow from the same table, `domain::permission`.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{Context, Object, dataloader::Loader};
use entity::{
    audit_entry::Action,
    cluster::Model,
    ids::{ErrorGroupId, UserId},
    membership::Role,
};

use crate::{
    domain::{
        audit::Target,
        permission::{Denial, Permission, Reach},
        role::manages,
    },
    graphql::{
        engine::{error::ApiError, loaders::StoreReader, scope::AccountScope},
        schema,
    },
    store::StoreError,
};

/// Returns the account of a caller with a permission for all of its objects.
///
/// # Errors
/// Returns an error if the caller does not have the permission.
pub(crate) fn require<'a>(
    context: &Context<'a>,
    permission: Permission,
) -> Result<&'a AccountScope, ApiError> {
    let scope = &schema::request_context(context).scope;
    match scope.rights.reach(permission) {
        Reach::Everything => Ok(scope),
        Reach::Own | Reach::Nothing => Err(scope.rights.denial(permission).into()),
    }
}

/// Returns the account of a caller who may do an action to all of its objects. The attempt of any other
/// caller is written to the audit log.
///
/// # Errors
/// Returns an error if the caller may not do the action.
pub(crate) async fn authorize<'a>(
    context: &Context<'a>,
    action: Action,
) -> Result<&'a AccountScope, ApiError> {
    authorize_with(context, action, |reach| reach == Reach::Everything).await
}

/// Returns the account of a caller who may do an action at least to their own objects. The change has to
/// check the owner, see [`AccountScope::required_owner`]. The attempt of any other caller is written to
/// the audit log.
///
/// # Errors
/// Returns an error if the caller may not do the action.
pub(crate) async fn authorize_own<'a>(
    context: &Context<'a>,
    action: Action,
) -> Result<&'a AccountScope, ApiError> {
    authorize_with(context, action, |reach| reach != Reach::Nothing).await
}

async fn authorize_with<'a>(
    context: &Context<'a>,
    action: Action,
    is_sufficient: impl Fn(Reach) -> bool,
) -> Result<&'a AccountScope, ApiError> {
    let scope = &schema::request_context(context).scope;
    let permission = Permission::for_action(action);
    if permission.is_some_and(|permission| is_sufficient(scope.rights.reach(permission))) {
        return Ok(scope);
    }
    let denial = permission.map_or(Denial::MissingAdmin, |permission| scope.rights.denial(permission));
    scope.record_denial(action, Target::Account, denial).await?;
    Err(denial.into())
}

impl From<Denial> for ApiError {
    fn from(denial: Denial) -> Self {
        Self::Forbidden(denial.to_string())
    }
}

impl AccountScope {
    /// Returns the user to whom an object must belong for an action of the viewer. `None` if it may belong
    /// to anyone.
    pub(crate) fn required_owner(&self, action: Action) -> Option<UserId> {
        match Permission::for_action(action) {
            Some(permission) => self.rights.required_owner(permission),
            None => Some(self.rights.user),
        }
    }

    /// Records an attempt at an object of another user in the audit log, and returns its error.
    pub(crate) async fn deny_other_owner(
        &self,
        action: Action,
        target: Target,
    ) -> Result<ApiError, ApiError> {
        self.record_denial(action, target, Denial::NotOwner).await?;
        Ok(Denial::NotOwner.into())
    }

    /// Returns true if the viewer may change memberships and invitations of a role.
    pub(crate) fn manages(&self, role: Role) -> bool {
        self.rights.permit(Permission::ManageMembers, None) && manages(self.rights.role, role)
    }

    /// Returns true if the viewer may revoke the tokens of a user.
    pub(crate) async fn can_revoke(&self, user: UserId) -> Result<bool, ApiError> {
        let rights = self.rights;
        if user == rights.user || rights.reach(Permission::RevokeToken) != Reach::Everything {
            return Ok(rights.permit(Permission::RevokeToken, Some(user)));
        }
        // Most callers need no statement: an owner manages every role.
        if manages(rights.role, Role::Owner) {
            return Ok(true);
        }
        let role = self.loader.load_one(RoleKey(user)).await?;
        Ok(role.is_some_and(|role| manages(rights.role, role)))
    }

    /// Returns true if the viewer may triage an error group.
    pub(crate) async fn can_triage(&self, group: ErrorGroupId) -> Result<bool, ApiError> {
        match self.rights.reach(Permission::TriageErrors) {
            Reach::Nothing => Ok(false),
            Reach::Everything => Ok(true),
            Reach::Own => {
                let key = OwnErrorsKey(self.rights.user, group);
                Ok(self.loader.load_one(key).await?.is_some())
            }
        }
    }
}

/// The loader key of a group of errors that happened on a cluster of a user. Other groups have no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OwnErrorsKey(UserId, ErrorGroupId);

impl Loader<OwnErrorsKey> for StoreReader {
    type Value = ();
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[OwnErrorsKey]) -> Result<HashMap<OwnErrorsKey, ()>, Self::Error> {
        let mut groups_by_user: HashMap<UserId, Vec<ErrorGroupId>> = HashMap::new();
        for OwnErrorsKey(user, group) in keys {
            groups_by_user.entry(*user).or_default().push(*group);
        }
        let mut found = HashMap::new();
        for (user, groups) in groups_by_user {
            let own_groups = self.0.error_groups_of_user(user, &groups).await?;
            found.extend(own_groups.into_iter().map(|group| (OwnErrorsKey(user, group), ())));
        }
        Ok(found)
    }
}

/// The loader key of the role of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RoleKey(pub(crate) UserId);

impl Loader<RoleKey> for StoreReader {
    type Value = Role;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[RoleKey]) -> Result<HashMap<RoleKey, Role>, Self::Error> {
        let users: Vec<UserId> = keys.iter().map(|key| key.0).collect();
        let found = self.0.member_roles(&users).await?;
        Ok(found.into_iter().map(|(user, role)| (RoleKey(user), role)).collect())
    }
}

/// The fields of a cluster with the permissions of the viewer.
pub(crate) struct ClusterPermissions<'a> {
    scope: &'a AccountScope,
    row: &'a Model,
}

impl<'a> ClusterPermissions<'a> {
    pub(crate) fn new(scope: &'a AccountScope, row: &'a Model) -> Self {
        Self { scope, row }
    }

    fn can(&self, permission: Permission) -> bool {
        self.scope.rights.permit(permission, self.row.user_id)
    }
}

/// The fields of a cluster with the permissions of the viewer.
#[Object]
impl ClusterPermissions<'_> {
    /// True if the viewer may set the cluster's tags with `setClusterTags`.
    async fn viewer_can_tag(&self) -> bool {
        self.can(Permission::TagCluster)
    }

    /// True if the viewer may set the cluster's notes with `setClusterNotes`.
    async fn viewer_can_annotate(&self) -> bool {
        self.can(Permission::AnnotateCluster)
    }

    /// True if the viewer has permission to use `keepAlive` on the cluster. It stays true after the cluster
    /// has closed, although `keepAlive` is then refused.
    async fn viewer_can_keep_alive(&self) -> bool {
        self.can(Permission::KeepClusterAlive)
    }

    /// True if the viewer may set the cluster's desired state with `setDesiredState`.
    async fn viewer_can_stop(&self) -> bool {
        self.can(Permission::StopCluster)
    }

    /// True if the viewer may give the cluster another owner with `handOverCluster`.
    async fn viewer_can_hand_over(&self) -> bool {
        self.can(Permission::HandOverCluster)
    }

    /// True if the viewer may delete the cluster with `deleteCluster`.
    async fn viewer_can_delete(&self) -> bool {
        self.can(Permission::DeleteCluster)
    }
}

/// The fields of an account with the permissions of the viewer.
pub(crate) struct AccountPermissions(pub(crate) AccountScope);

impl AccountPermissions {
    fn can(&self, permission: Permission) -> bool {
        self.0.rights.reach(permission) == Reach::Everything
    }
}

/// The fields of an account with the permissions of the viewer.
#[Object]
impl AccountPermissions {
    /// True if the viewer may create tokens of their own with `createToken`. For tokens of other members,
    /// see `viewerCanManageMembers`.
    async fn viewer_can_create_token(&self) -> bool {
        self.0.rights.reach(Permission::CreateToken) != Reach::Nothing
    }

    /// True if the viewer may read `members`, `invitations` and `tokens`, and change those of members
    /// whose role is not above the viewer's.
    async fn viewer_can_manage_members(&self) -> bool {
        self.can(Permission::ManageMembers)
    }

    /// True if the viewer may set policies, rates, mutes and alert rules.
    async fn viewer_can_change_settings(&self) -> bool {
        self.can(Permission::ChangeSettings)
    }

    /// True if the viewer may read `auditLog`.
    async fn viewer_can_read_audit_log(&self) -> bool {
        self.can(Permission::ReadAuditLog)
    }

    /// True if the viewer may delete data with `deleteData` and `deleteUser`, and use `forgetToken` and
    /// `restoreToken`.
    async fn viewer_can_delete_data(&self) -> bool {
        self.can(Permission::DeleteData)
    }

    /// True if the viewer may delete the account with `deleteAccount`.
    async fn viewer_can_delete(&self) -> bool {
        self.can(Permission::DeleteAccount)
    }
}
