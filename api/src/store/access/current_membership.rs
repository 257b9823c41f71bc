//! The current memberships of a user. They are queried over all accounts, since the account is not known
//! yet.

use entity::{
    Timestamp, account, default_account, identity,
    ids::UserId,
    membership::{Column, Entity, Model},
    user,
};
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, Select,
    sea_query::{Expr, ExprTrait, Query},
};

use crate::{
    domain::slug::Slug,
    store::core::{composite_in::IsOneOf, error::StoreError, system::SystemStore},
};

/// A user as a member of an account.
#[derive(Clone, Debug)]
pub struct CurrentMembership {
    /// The account.
    pub account: account::Model,
    /// The user.
    pub user: user::Model,
    /// The membership, with the user's role.
    pub membership: Model,
}

/// The user whose memberships are queried.
#[derive(Clone, Copy, Debug)]
pub enum UserRef<'a> {
    /// A user by identifier.
    User(UserId),
    /// The user that an issuer knows by a subject.
    Identity {
        /// The issuer.
        issuer: &'a str,
        /// The subject.
        subject: &'a str,
    },
}

impl SystemStore {
    /// Returns a user's current membership in the account that the request means. Candidates are the
    /// accounts in `accounts`, or all if it is `None`. The user's default account comes first, then the
    /// account with the oldest membership.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.current_membership.find", skip_all)]
    pub async fn find_current_membership(
        &self,
        user: UserRef<'_>,
        accounts: Option<&[Slug]>,
        now: Timestamp,
    ) -> Result<Option<CurrentMembership>, StoreError> {
        let row = select_current(user, accounts, now)
            .find_also_related(account::Entity)
            .find_also_related(user::Entity)
            .one(&self.pools.reader)
            .await?;
        Ok(row.and_then(current_membership))
    }
}

/// Selects the current memberships of a user, in `accounts` if it is given, the one in the default
/// account first.
#[expect(
    clippy::disallowed_methods,
    reason = "the memberships of a user are queried before an account is known"
)]
pub(crate) fn select_current(
    user_ref: UserRef<'_>,
    accounts: Option<&[Slug]>,
    now: Timestamp,
) -> Select<Entity> {
    let mut memberships = match user_ref {
        UserRef::User(user) => Entity::find().filter(Column::UserId.eq(user)),
        UserRef::Identity { issuer, subject } => {
            let identity_users = Query::select()
                .column(identity::Column::UserId)
                .from(identity::Entity)
                .and_where(identity::Column::Issuer.eq(issuer))
                .and_where(identity::Column::Subject.eq(subject))
                .take();
            Entity::find().filter(Column::UserId.in_subquery(identity_users))
        }
    };
    if let Some(accounts) = accounts {
        let account_ids = Query::select()
            .column(account::Column::Id)
            .from(account::Entity)
            .and_where(account::Column::Slug.is_one_of(accounts.iter().map(Slug::as_str)))
            .take();
        memberships = memberships.filter(Column::AccountId.in_subquery(account_ids));
    }
    let is_of_membership = Expr::col((default_account::Entity, default_account::Column::UserId))
        .equals((Entity, Column::UserId))
        .and(
            Expr::col((default_account::Entity, default_account::Column::AccountId))
                .equals((Entity, Column::AccountId)),
        );
    let is_default = Expr::exists(
        Query::select().expr(Expr::val(1)).from(default_account::Entity).and_where(is_of_membership).take(),
    );
    memberships
        .filter(Condition::any().add(Column::EndsAt.is_null()).add(Column::EndsAt.gt(now)))
        .order_by_desc(is_default)
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::AccountId)
}

/// Joins the parts of a row. All of them exist, since a membership is deleted with its account and with
/// its user.
pub(crate) fn current_membership(
    (membership, account, user): (Model, Option<account::Model>, Option<user::Model>),
) -> Option<CurrentMembership> {
    Some(CurrentMembership { account: account?, user: user?, membership })
}
