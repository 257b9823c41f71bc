//! Users, as the other members of their account see them.

use async_graphql::{ID, Object};
use entity::{ids::UserId, user};

use crate::graphql::engine::{error::ApiError, id::GlobalId, projection::inline_fields, scope::AccountScope};

/// A member of the account.
pub(crate) struct User {
    scope: AccountScope,
    row: user::Model,
}

impl User {
    pub(crate) fn new(scope: &AccountScope, row: user::Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    /// Returns the user that an argument names by a global identifier of this account.
    ///
    /// # Errors
    /// Returns an error if the identifier is of another account or does not name a user.
    pub(crate) fn parse_id(
        scope: &AccountScope,
        argument: &'static str,
        id: &ID,
    ) -> Result<UserId, ApiError> {
        match GlobalId::parse(id) {
            Some(GlobalId::User(account, user)) if account == scope.account.id => Ok(user),
            _ => Err(ApiError::unknown(argument, "user")),
        }
    }

    /// Returns the user; `None` if the user is no member of the account.
    pub(crate) async fn find(scope: &AccountScope, id: UserId) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }
}

/// A user who is a member of the account.
#[Object]
impl User {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::User(self.scope.account.id, self.row.id).into()
    }

    /// The name the user signs in with.
    async fn name(&self) -> &str {
        &self.row.name
    }
}

inline_fields! { User: id, name }
