//! What an account has watched by itself: what is noticed of clusters, and whom it wants to be told of what.

use async_graphql::Object;

use super::{
    connection::{Connection, PageArguments},
    error::ApiError,
    flag::{self, Flag, FlagKind},
    flag_rule::{self, FlagMute, FlagRule},
    scope::AccountScope,
};

/// What an account has watched by itself.
pub(super) struct AccountWatch(pub(super) AccountScope);

/// What an account has watched by itself.
#[Object]
impl AccountWatch {
    /// What is noticed of its clusters: what lasts first, and then what ended last. Up to a minute old.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn flags(
        &self,
        #[graphql(
            desc = "Only what lasts (true), or only what ended (false); all if null.",
            default_with = "Some(true)"
        )]
        active: Option<bool>,
        #[graphql(desc = "Only these kinds, at most 20; all if absent.")] kinds: Option<Vec<FlagKind>>,
        #[graphql(desc = "Also what the account has muted.", default)] muted: bool,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Flag>, ApiError> {
        let page = PageArguments { first, after, last, before };
        flag::of_account(&self.0, flag::filter(active, kinds)?, muted, page).await
    }

    /// When what is noticed of clusters, and what to make of it.
    async fn flag_rules(&self) -> Result<Vec<FlagRule>, ApiError> {
        flag_rule::rules(&self.0).await
    }

    /// What it does not want to be told of, by kind.
    async fn flag_mutes(&self) -> Result<Vec<FlagMute>, ApiError> {
        flag_rule::mutes(&self.0).await
    }
}
