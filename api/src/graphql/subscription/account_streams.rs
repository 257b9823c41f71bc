//! Subscriptions to rows of the account itself: alerts and error groups. All changed rows are sent in the
//! order of their changes; a slow subscriber receives them later.

use async_graphql::{Context, Subscription};

use super::{
    PayloadStream, RowSelection, SubscriptionPlan,
    batch::{AlertBatch, ErrorGroupBatch},
    parse_position, require_account, resolve,
};
use crate::{
    domain::stream_cursor::Stream,
    graphql::{
        accounts::account_list::MAX_VALUES,
        engine::{
            argument::{check_max_len, check_text_list},
            error::ApiError,
        },
        errors::{error_group::ErrorOrigin, error_status::ErrorGroupStatus},
    },
    store::ErrorGroupFilter,
};

#[derive(Default)]
pub(super) struct AccountSubscription;

#[Subscription]
impl AccountSubscription {
    /// Alerts that were raised, changed or ended, in their current state, at most 100 per payload, in the
    /// order of their changes. An alert also changes when its value does. One that changes several times
    /// before a slow subscriber receives it is sent once.
    async fn alerts(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`. Alerts that changed after it are \
                    sent first. Null to start from now."
        )]
        after: Option<String>,
    ) -> Result<PayloadStream<AlertBatch>, ApiError> {
        let plan = async {
            require_account(context, &account)?;
            let after = parse_position(after, Stream::Alerts)?;
            Ok(SubscriptionPlan::new(RowSelection::Alerts, None, after))
        };
        resolve(context, AlertBatch::of, plan).await
    }

    /// Error groups that are new, got new errors, or changed their status, in their current state, at most
    /// 100 per payload, in the order of their changes. A group that changes several times before a slow
    /// subscriber receives it is sent once.
    async fn error_groups(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "The kind of code that failed. Null for all kinds.")] origin: Option<ErrorOrigin>,
        #[graphql(desc = "The classes of the exceptions, at most 100. Null for exceptions of all classes.")]
        types: Option<Vec<String>>,
        #[graphql(
            desc = "The triage statuses, at most 100. A group that gets another status is sent once more, as \
                    `unmatched`. Null for groups of all statuses."
        )]
        status: Option<Vec<ErrorGroupStatus>>,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`. Groups that changed after it are \
                    sent first. Null to start from now."
        )]
        after: Option<String>,
    ) -> Result<PayloadStream<ErrorGroupBatch>, ApiError> {
        let plan = async {
            require_account(context, &account)?;
            check_text_list("types", types.as_deref(), MAX_VALUES)?;
            check_max_len("status", status.as_deref(), MAX_VALUES)?;
            let after = parse_position(after, Stream::ErrorGroups)?;
            let filter = ErrorGroupFilter {
                origin: origin.map(Into::into),
                types,
                statuses: status.map(|statuses| statuses.into_iter().map(Into::into).collect()),
                ..ErrorGroupFilter::default()
            };
            let selection = RowSelection::ErrorGroups(filter);
            Ok(SubscriptionPlan::new(selection, None, after))
        };
        resolve(context, ErrorGroupBatch::of, plan).await
    }
}
