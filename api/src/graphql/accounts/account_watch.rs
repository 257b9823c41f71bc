//! The fields of an account that concern monitoring: flags, alerts, and their rules.

use async_graphql::{Context, Object};

use super::saved_view::AccountViews;
use crate::{
    domain::permission::Permission,
    graphql::{
        access::permission::require,
        alerts::{
            alert::{self, Alert},
            alert_delivery::{self, AlertDelivery},
            alert_rule::{self, AlertRule},
            flag::{self, Flag, FlagKind},
            flag_rule::{self, FlagMute, FlagRule},
        },
        clusters::cluster_list::{self, ClusterFilter},
        engine::{
            connection::{Connection, PageArguments},
            error::{ApiError, NullOnError},
            scope::AccountScope,
        },
    },
    store::AccountFlagFilter,
};

/// The monitoring of an account: flags, alerts, and their rules.
pub(crate) struct AccountMonitoring(pub(crate) AccountScope);

/// The monitoring of an account: flags, alerts, and their rules.
#[Object]
impl AccountMonitoring {
    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn views(&self) -> AccountViews {
        AccountViews(self.0.clone())
    }

    /// The flags of the account's clusters, the active ones first, then the most recently ended. Up to
    /// one minute old. Null, with the error code `BAD_USER_INPUT`, if more than 500 clusters pass
    /// `clusters`.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn flags(
        &self,
        #[graphql(
            desc = "True for active flags only, false for ended ones only, null for all.",
            default_with = "Some(true)"
        )]
        active: Option<bool>,
        #[graphql(desc = "Only these kinds of flag, at most 20. Null for all.")] kinds: Option<Vec<FlagKind>>,
        #[graphql(desc = "If true, muted flags are included.", default)] muted: bool,
        #[graphql(
            desc = "Only flags of clusters that pass this filter, at most 500 clusters. Null for all \
                    clusters."
        )]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> NullOnError<Connection<Flag>> {
        let flags = async {
            let page = PageArguments { first, after, last, before };
            let unmuted_at = (!muted).then(|| self.0.now.into());
            let clusters = cluster_list::resolve_clusters(&self.0, clusters).await?;
            let filter =
                AccountFlagFilter { clusters, filter: flag::flag_filter(active, kinds)?, unmuted_at };
            flag::load_account_flags(&self.0, filter, page).await
        };
        Some(flags.await)
    }

    /// The rules by which flags are detected, with their thresholds and advice.
    async fn flag_rules(&self) -> Result<Vec<FlagRule>, ApiError> {
        flag_rule::load_rules(&self.0).await
    }

    /// The muted kinds of flag.
    async fn flag_mutes(&self) -> Result<Vec<FlagMute>, ApiError> {
        flag_rule::load_mutes(&self.0).await
    }

    /// The alerts that the alert rules raised, the active ones first, then the most recently ended. Up
    /// to one minute old; alerts about costs are up to six minutes old.
    async fn alerts(
        &self,
        #[graphql(
            desc = "True for active alerts only, false for ended ones only, null for all.",
            default_with = "Some(true)"
        )]
        active: Option<bool>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Alert>, ApiError> {
        alert::load_alerts(&self.0, active, PageArguments { first, after, last, before }).await
    }

    /// The alert rules of the account, the oldest first. Null, with the error code `FORBIDDEN`, for a
    /// token without the scope `admin`.
    async fn alert_rules(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> NullOnError<Connection<AlertRule>> {
        if let Err(error) = require(context, Permission::ChangeSettings) {
            return Some(Err(error));
        }
        Some(alert_rule::load_rules(&self.0, PageArguments { first, after, last, before }).await)
    }

    /// The messages about alerts of the last 30 days and the state of their delivery, the newest first.
    /// Null, with the error code `FORBIDDEN`, for a token without the scope `admin`.
    async fn alert_deliveries(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Only messages about the rule with this identifier. Null for all rules.")]
        rule: Option<String>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> NullOnError<Connection<AlertDelivery>> {
        if let Err(error) = require(context, Permission::ChangeSettings) {
            return Some(Err(error));
        }
        Some(
            alert_delivery::load_deliveries(&self.0, rule, PageArguments { first, after, last, before })
                .await,
        )
    }
}
