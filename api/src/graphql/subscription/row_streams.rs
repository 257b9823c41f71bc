//! Subscriptions to added rows. All rows are sent in the order of their arrival; a slow subscriber
//! receives them later.

use async_graphql::{Context, ID, Subscription};

use super::{
    PayloadStream, RowSelection, SubscriptionPlan,
    batch::{ComputationBatch, ErrorBatch, EventBatch, LogBatch},
    parse_position, require_account, resolve, resolve_cluster_ids,
};
use crate::{
    domain::stream_cursor::Stream,
    graphql::{
        accounts::account_list::MAX_VALUES,
        clusters::cluster_list::ClusterFilter,
        computations::computation::RunState,
        engine::{
            argument::{check_max_len, check_text, check_text_list},
            error::ApiError,
        },
        errors::error_group::ErrorOrigin,
        telemetry::log_line::LogSource,
    },
    store::{AccountComputations, AccountErrors, AccountEvents, AccountLogs, LogFilter},
};

const ANY_TIME: (Option<i64>, Option<i64>) = (None, None);

#[derive(Default)]
pub(super) struct AppendSubscription;

#[Subscription]
impl AppendSubscription {
    /// Computations that started or changed, in their current state, at most 100 per payload, in the
    /// order of arrival. A computation that changes several times before a slow subscriber receives it
    /// is sent once.
    async fn computations(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "Only items of clusters that pass this filter. Null for all clusters.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "The global identifiers of the clusters, at most 100. Null for all clusters.")]
        ids: Option<Vec<ID>>,
        #[graphql(desc = "The states of the computations. Null for all computations.")] states: Option<
            Vec<RunState>,
        >,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`. Items that arrived after it are sent \
                    first. Null to start from now."
        )]
        after: Option<String>,
    ) -> Result<PayloadStream<ComputationBatch>, ApiError> {
        let plan = async {
            let scope = require_account(context, &account)?;
            check_max_len("states", states.as_deref(), MAX_VALUES)?;
            let after = parse_position(after, Stream::Computations)?;
            let ids = resolve_cluster_ids(scope, ids).await?;
            let selection = RowSelection::Computations(AccountComputations {
                clusters: clusters.unwrap_or_default().check(scope).await?,
                started_in: ANY_TIME,
                states: states.map(|states| states.into_iter().map(Into::into).collect()),
            });
            Ok(SubscriptionPlan::new(selection, ids, after))
        };
        resolve(context, ComputationBatch::of, plan).await
    }

    /// Tasks that failed, at most 100 per payload, in the order of arrival.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the field")]
    async fn errors(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "Only items of clusters that pass this filter. Null for all clusters.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "The global identifiers of the clusters, at most 100. Null for all clusters.")]
        ids: Option<Vec<ID>>,
        #[graphql(desc = "The kind of code that failed. Null for all kinds.")] origin: Option<ErrorOrigin>,
        #[graphql(desc = "The classes of the exceptions, at most 100. Null for exceptions of all classes.")]
        types: Option<Vec<String>>,
        #[graphql(
            name = "match",
            desc = "A text that the message or the traceback must contain, ignoring case. Null for all errors."
        )]
        search_text: Option<String>,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`. Items that arrived after it are sent \
                    first. Null to start from now."
        )]
        after: Option<String>,
    ) -> Result<PayloadStream<ErrorBatch>, ApiError> {
        let plan = async {
            let scope = require_account(context, &account)?;
            check_text_list("types", types.as_deref(), MAX_VALUES)?;
            let (search_text, after) =
                (parse_search_text(search_text)?, parse_position(after, Stream::Errors)?);
            let ids = resolve_cluster_ids(scope, ids).await?;
            let clusters = clusters.unwrap_or_default().check(scope).await?;
            let errors = AccountErrors { clusters, at: ANY_TIME, origin: origin.map(Into::into), types };
            let selection = RowSelection::Errors(errors, search_text);
            Ok(SubscriptionPlan::new(selection, ids, after))
        };
        resolve(context, ErrorBatch::of, plan).await
    }

    /// Events that Dask or a user logged with `log_event`, at most 100 per payload, in the order of
    /// arrival.
    async fn events(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "Only items of clusters that pass this filter. Null for all clusters.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "The global identifiers of the clusters, at most 100. Null for all clusters.")]
        ids: Option<Vec<ID>>,
        #[graphql(desc = "The topics of the events, at most 100. Null for the events of all topics.")]
        topics: Option<Vec<String>>,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`. Items that arrived after it are sent \
                    first. Null to start from now."
        )]
        after: Option<String>,
    ) -> Result<PayloadStream<EventBatch>, ApiError> {
        let plan = async {
            let scope = require_account(context, &account)?;
            check_text_list("topics", topics.as_deref(), MAX_VALUES)?;
            let after = parse_position(after, Stream::Events)?;
            let ids = resolve_cluster_ids(scope, ids).await?;
            let clusters = clusters.unwrap_or_default().check(scope).await?;
            let selection = RowSelection::Events(AccountEvents { clusters, at: ANY_TIME, topics });
            Ok(SubscriptionPlan::new(selection, ids, after))
        };
        resolve(context, EventBatch::of, plan).await
    }

    /// Log lines, at most 100 per payload, in the order of arrival. A line that cannot be decrypted
    /// matches no text.
    #[expect(clippy::too_many_arguments, reason = "the arguments of the field")]
    async fn logs(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "Only items of clusters that pass this filter. Null for all clusters.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "The global identifiers of the clusters, at most 100. Null for all clusters.")]
        ids: Option<Vec<ID>>,
        #[graphql(desc = "The log levels, such as `WARNING`, at most 20. Null for lines of all levels.")]
        levels: Option<Vec<String>>,
        #[graphql(desc = "The kinds of process, at most 20. Null for lines of all kinds.")] sources: Option<
            Vec<LogSource>,
        >,
        #[graphql(
            name = "match",
            desc = "A text that the line must contain, ignoring case. Null for all lines."
        )]
        search_text: Option<String>,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`. Items that arrived after it are sent \
                    first. Null to start from now."
        )]
        after: Option<String>,
    ) -> Result<PayloadStream<LogBatch>, ApiError> {
        let plan = async {
            let scope = require_account(context, &account)?;
            check_text_list("levels", levels.as_deref(), 20)?;
            check_max_len("sources", sources.as_deref(), 20)?;
            let (search_text, after) =
                (parse_search_text(search_text)?, parse_position(after, Stream::Logs)?);
            let ids = resolve_cluster_ids(scope, ids).await?;
            let sources = sources.map(|sources| sources.into_iter().map(Into::into).collect());
            let filter = LogFilter { levels, sources, ..LogFilter::default() };
            let clusters = clusters.unwrap_or_default().check(scope).await?;
            let selection = RowSelection::Logs(AccountLogs { clusters, at: ANY_TIME, filter }, search_text);
            Ok(SubscriptionPlan::new(selection, ids, after))
        };
        resolve(context, LogBatch::of, plan).await
    }
}

/// Returns the text to search for, in lower case; `None` if it is empty.
fn parse_search_text(text: Option<String>) -> Result<Option<String>, ApiError> {
    text.iter().try_for_each(|text| check_text("match", text))?;
    Ok(text.filter(|text| !text.is_empty()).map(|text| text.to_lowercase()))
}
