//! What a user is in which account: asked before an account is known, hence of all of them.

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

use super::{error::StoreError, identity::SystemStore};
use crate::domain::slug::Slug;

/// A user as a member of an account.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The account.
    pub account: account::Model,
    /// The user.
    pub user: user::Model,
    /// As what.
    pub membership: Model,
}

/// Whose standing is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Whose<'a> {
    /// A user's.
    User(UserId),
    /// That of the user whom an issuer knows by a name.
    Identity {
        /// Who knows the user.
        issuer: &'a str,
        /// By which name.
        subject: &'a str,
    },
}

impl SystemStore {
    /// What somebody is now, in the account that is meant: of those in `accounts`, or of all if there is no such list,
    /// the user's default one, and otherwise the one in which the user has been a member for longest.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.standing.find", skip_all)]
    pub async fn standing(
        &self,
        whose: Whose<'_>,
        accounts: Option<&[Slug]>,
        now: Timestamp,
    ) -> Result<Option<Standing>, StoreError> {
        let row = current(whose, accounts, now)
            .find_also_related(account::Entity)
            .find_also_related(user::Entity)
            .one(&self.pools.reader)
            .await?;
        Ok(row.and_then(standing))
    }
}

/// The memberships of somebody that are not over, in `accounts` if there is such a list, that in the default one first.
#[expect(
    clippy::disallowed_methods,
    reason = "what somebody is anywhere is asked before an account is known"
)]
pub(super) fn current(whose: Whose<'_>, accounts: Option<&[Slug]>, now: Timestamp) -> Select<Entity> {
    let mut memberships = match whose {
        Whose::User(user) => Entity::find().filter(Column::UserId.eq(user)),
        Whose::Identity { issuer, subject } => {
            let known = Query::select()
                .column(identity::Column::UserId)
                .from(identity::Entity)
                .and_where(identity::Column::Issuer.eq(issuer))
                .and_where(identity::Column::Subject.eq(subject))
                .take();
            Entity::find().filter(Column::UserId.in_subquery(known))
        }
    };
    if let Some(accounts) = accounts {
        let named = Query::select()
            .column(account::Column::Id)
            .from(account::Entity)
            .and_where(account::Column::Slug.is_in(accounts.iter().map(Slug::as_str)))
            .take();
        memberships = memberships.filter(Column::AccountId.in_subquery(named));
    }
    let of_user = Expr::col((default_account::Entity, default_account::Column::UserId))
        .equals((Entity, Column::UserId))
        .and(
            Expr::col((default_account::Entity, default_account::Column::AccountId))
                .equals((Entity, Column::AccountId)),
        );
    let is_default = Expr::exists(
        Query::select().expr(Expr::val(1)).from(default_account::Entity).and_where(of_user).take(),
    );
    memberships
        .filter(Condition::any().add(Column::EndsAt.is_null()).add(Column::EndsAt.gt(now)))
        .order_by_desc(is_default)
        .order_by_asc(Column::CreatedAt)
        .order_by_asc(Column::AccountId)
}

/// The parts of a row, which has all of them: memberships go with their account and with their user.
pub(super) fn standing(
    (membership, account, user): (Model, Option<account::Model>, Option<user::Model>),
) -> Option<Standing> {
    Some(Standing { account: account?, user: user?, membership })
}
