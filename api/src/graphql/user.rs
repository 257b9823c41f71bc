//! Users, as their fellow members see them.

use async_graphql::{ID, Object};
use entity::{ids::UserId, user};

use super::{error::ApiError, id::GlobalId, in_place::in_place, scope::AccountScope};

/// A member of the account.
pub(super) struct User {
    scope: AccountScope,
    row: user::Model,
}

impl User {
    pub(super) fn new(scope: &AccountScope, row: user::Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    /// The user whom an argument names by an identifier of this account; those of another account name nobody.
    pub(super) fn identified(
        scope: &AccountScope,
        argument: &'static str,
        id: &ID,
    ) -> Result<UserId, ApiError> {
        match GlobalId::parse(id) {
            Some(GlobalId::User(account, user)) if account == scope.account.id => Ok(user),
            _ => Err(ApiError::unknown(argument, "user")),
        }
    }

    /// The user, if a member of the account.
    pub(super) async fn find(scope: &AccountScope, id: UserId) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }
}

/// A member of the account.
#[Object]
impl User {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::User(self.scope.account.id, self.row.id).into()
    }

    /// The name the user signs in with.
    async fn name(&self) -> &str {
        &self.row.name
    }
}

in_place! { User: id, name }
