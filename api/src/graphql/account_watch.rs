//! What an account has watched by itself: what is noticed of clusters, and whom it wants to be told of what.

use async_graphql::{Context, Object};

use super::{
    alert::{self, Alert},
    alert_delivery::{self, AlertDelivery},
    alert_rule::{self, AlertRule},
    cluster_list::{self, ClusterFilter},
    connection::{Connection, PageArguments},
    error::{Alone, ApiError},
    flag::{self, Flag, FlagKind},
    flag_rule::{self, FlagMute, FlagRule},
    mutation::admin,
    scope::AccountScope,
};
use crate::store::AccountFlags;

/// What an account has watched by itself.
pub(super) struct AccountWatch(pub(super) AccountScope);

/// What an account has watched by itself.
#[Object]
impl AccountWatch {
    /// What is noticed of its clusters: what lasts first, and then what ended last. Up to a minute old. Null, with an error, where
    /// `clusters` passes too many.
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
        #[graphql(desc = "Only of clusters that pass all of its conditions, at most 500; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Alone<Connection<Flag>> {
        let flags = async {
            let page = PageArguments { first, after, last, before };
            let unmuted_at = (!muted).then(|| self.0.now.into());
            let clusters = cluster_list::passing(&self.0, clusters).await?;
            let of = AccountFlags { clusters, filter: flag::filter(active, kinds)?, unmuted_at };
            flag::of_account(&self.0, of, page).await
        };
        Some(flags.await)
    }

    /// When what is noticed of clusters, and what to make of it.
    async fn flag_rules(&self) -> Result<Vec<FlagRule>, ApiError> {
        flag_rule::rules(&self.0).await
    }

    /// What it does not want to be told of, by kind.
    async fn flag_mutes(&self) -> Result<Vec<FlagMute>, ApiError> {
        flag_rule::mutes(&self.0).await
    }

    /// What its alert rules found: what lasts first, and then what ended last. Up to a minute old, and costs up to six.
    async fn alerts(
        &self,
        #[graphql(
            desc = "Only what lasts (true), or only what ended (false); all if null.",
            default_with = "Some(true)"
        )]
        active: Option<bool>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Alert>, ApiError> {
        alert::alerts(&self.0, active, PageArguments { first, after, last, before }).await
    }

    /// Whom it wants to be told of what, the oldest rule first. Null, with an error, for a token without the scope `admin`.
    async fn alert_rules(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Alone<Connection<AlertRule>> {
        if let Err(error) = admin(context) {
            return Some(Err(error));
        }
        Some(alert_rule::rules(&self.0, PageArguments { first, after, last, before }).await)
    }

    /// The messages that tell of alerts, the newest first, and what became of them; of the last 30 days. Null, with an error,
    /// for a token without the scope `admin`.
    async fn alert_deliveries(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Only those of the rule with this identifier.")] rule: Option<String>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Alone<Connection<AlertDelivery>> {
        if let Err(error) = admin(context) {
            return Some(Err(error));
        }
        Some(alert_delivery::deliveries(&self.0, rule, PageArguments { first, after, last, before }).await)
    }
}
