//! What is added and stays: all of it is sent, in the order in which it arrived, to slow readers later.

use async_graphql::{Context, ID, Object, Subscription};

use super::{
    Delivery, Gap, Payloads, Planned, Rows, Wanted, account, delivered, named, planned, resumed,
    state::PAUSE_MS,
};
use crate::{
    domain::position::Stream,
    graphql::{
        account_list::MAX_VALUES,
        argument::{at_most, storable, texts},
        cluster_list::ClusterFilter,
        computation::{Computation, RunState},
        error::ApiError,
        error_group::ErrorOrigin,
        error_occurrence::ErrorOccurrence,
        event::Event,
        in_place::Items,
        log_line::{LogLine, LogSource},
        scope::AccountScope,
    },
    store::{AccountComputations, AccountErrors, AccountEvents, AccountLogs, LogFilter},
};

const ANYTIME: (Option<i64>, Option<i64>) = (None, None);

#[derive(Default)]
pub(super) struct AppendSubscription;

#[Subscription]
impl AppendSubscription {
    /// Computations that began or went on, as they are now, at most 100 in one payload, in the order in which it became known.
    /// One that changes again before a slow reader got it comes once.
    async fn computations(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "Only of clusters that pass all of its conditions; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(
            desc = "Only of the clusters with these global identifiers, at most 100; of all if absent."
        )]
        ids: Option<Vec<ID>>,
        #[graphql(desc = "Only computations in one of these states; in all if absent.")] states: Option<
            Vec<RunState>,
        >,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`: what came since then comes first."
        )]
        after: Option<String>,
    ) -> Result<Payloads<ComputationBatch>, ApiError> {
        if let Some(payload) = delivered(context, ComputationBatch::of) {
            return Ok(payload);
        }
        let scope = self::account(context, &account)?;
        at_most("states", states.as_deref(), MAX_VALUES)?;
        let after = resumed(after, Stream::Computations)?;
        let ids = named(scope, ids).await?;
        let wanted = Wanted::Computations(AccountComputations {
            clusters: clusters.unwrap_or_default().check(scope).await?,
            started_in: ANYTIME,
            states: states.map(|states| states.into_iter().map(Into::into).collect()),
        });
        Ok(planned(context, Planned { wanted, clusters: ids, after, pause_ms: PAUSE_MS }))
    }

    /// Tasks that erred, at most 100 in one payload, in the order in which it became known.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn errors(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "Only of clusters that pass all of its conditions; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(
            desc = "Only of the clusters with these global identifiers, at most 100; of all if absent."
        )]
        ids: Option<Vec<ID>>,
        #[graphql(desc = "Only failures of one kind of code; all if absent.")] origin: Option<ErrorOrigin>,
        #[graphql(desc = "Only exceptions of one of these classes, at most 100; of all if absent.")]
        types: Option<Vec<String>>,
        #[graphql(
            name = "match",
            desc = "Only errors whose message or traceback contains this text, in upper or lower case."
        )]
        words: Option<String>,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`: what came since then comes first."
        )]
        after: Option<String>,
    ) -> Result<Payloads<ErrorBatch>, ApiError> {
        if let Some(payload) = delivered(context, ErrorBatch::of) {
            return Ok(payload);
        }
        let scope = self::account(context, &account)?;
        texts("types", types.as_deref(), MAX_VALUES)?;
        let (words, after) = (wanted_words(words)?, resumed(after, Stream::Errors)?);
        let ids = named(scope, ids).await?;
        let clusters = clusters.unwrap_or_default().check(scope).await?;
        let of = AccountErrors { clusters, at: ANYTIME, origin: origin.map(Into::into), types };
        let wanted = Wanted::Errors(of, words);
        Ok(planned(context, Planned { wanted, clusters: ids, after, pause_ms: PAUSE_MS }))
    }

    /// What Dask or a user logged with `log_event`, at most 100 in one payload, in the order in which it became known.
    async fn events(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "Only of clusters that pass all of its conditions; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(
            desc = "Only of the clusters with these global identifiers, at most 100; of all if absent."
        )]
        ids: Option<Vec<ID>>,
        #[graphql(desc = "Only what was published under one of these, at most 100; all if absent.")]
        topics: Option<Vec<String>>,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`: what came since then comes first."
        )]
        after: Option<String>,
    ) -> Result<Payloads<EventBatch>, ApiError> {
        if let Some(payload) = delivered(context, EventBatch::of) {
            return Ok(payload);
        }
        let scope = self::account(context, &account)?;
        texts("topics", topics.as_deref(), MAX_VALUES)?;
        let after = resumed(after, Stream::Events)?;
        let ids = named(scope, ids).await?;
        let clusters = clusters.unwrap_or_default().check(scope).await?;
        let wanted = Wanted::Events(AccountEvents { clusters, at: ANYTIME, topics });
        Ok(planned(context, Planned { wanted, clusters: ids, after, pause_ms: PAUSE_MS }))
    }

    /// Lines of logs, at most 100 in one payload, in the order in which they became known. A line that cannot be decrypted
    /// matches nothing.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn logs(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The account's short name.")] account: String,
        #[graphql(desc = "Only of clusters that pass all of its conditions; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(
            desc = "Only of the clusters with these global identifiers, at most 100; of all if absent."
        )]
        ids: Option<Vec<ID>>,
        #[graphql(desc = "Only lines of one of these levels, as `WARNING`, at most 20; all if absent.")]
        levels: Option<Vec<String>>,
        #[graphql(desc = "Only lines of these kinds of process, at most 20; all if absent.")] sources: Option<
            Vec<LogSource>,
        >,
        #[graphql(name = "match", desc = "Only lines that contain this text, in upper or lower case.")]
        words: Option<String>,
        #[graphql(
            desc = "A `cursor` of this subscription, or a `liveCursor`: what came since then comes first."
        )]
        after: Option<String>,
    ) -> Result<Payloads<LogBatch>, ApiError> {
        if let Some(payload) = delivered(context, LogBatch::of) {
            return Ok(payload);
        }
        let scope = self::account(context, &account)?;
        texts("levels", levels.as_deref(), 20)?;
        at_most("sources", sources.as_deref(), 20)?;
        let (words, after) = (wanted_words(words)?, resumed(after, Stream::Logs)?);
        let ids = named(scope, ids).await?;
        let sources = sources.map(|sources| sources.into_iter().map(Into::into).collect());
        let filter = LogFilter { levels, sources, ..LogFilter::default() };
        let clusters = clusters.unwrap_or_default().check(scope).await?;
        let wanted = Wanted::Logs(AccountLogs { clusters, at: ANYTIME, filter }, words);
        Ok(planned(context, Planned { wanted, clusters: ids, after, pause_ms: PAUSE_MS }))
    }
}

/// Words that are looked for in every text: none if they are empty.
fn wanted_words(words: Option<String>) -> Result<Option<String>, ApiError> {
    words.iter().try_for_each(|words| storable("match", words))?;
    Ok(words.filter(|words| !words.is_empty()).map(|words| words.to_lowercase()))
}

/// Declares what is delivered of one kind of rows.
macro_rules! batch {
    ($doc:literal, $batch:ident, $noun:ident, $field:ident, $rows:ident, $field_doc:literal) => {
        #[doc = $doc]
        pub(super) struct $batch {
            cursor: String,
            items: Vec<$noun>,
        }

        impl $batch {
            fn of(scope: &AccountScope, Delivery { cursor, rows }: Delivery) -> Option<Self> {
                let Rows::$rows(rows) = rows else { return None };
                let items = rows.into_iter().map(|row| $noun::new(scope, row)).collect();
                Some(Self { cursor, items })
            }
        }

        #[doc = $doc]
        #[Object]
        impl $batch {
            /// Where the stream is: give it as `after` to go on behind this payload.
            async fn cursor(&self) -> &str {
                &self.cursor
            }

            /// Whether something is missing in front of this payload, which is so only if more clusters changed since `after`
            /// than are looked at, or what came then has been deleted by its age.
            async fn gap(&self) -> Gap {
                Gap
            }

            #[doc = $field_doc]
            async fn $field(&self) -> Items<&$noun> {
                Items(self.items.iter().collect())
            }
        }
    };
}

batch!(
    "Computations that began or went on.",
    ComputationBatch,
    Computation,
    computations,
    Computations,
    "The computations as they are now, at most 100."
);
batch!("Tasks that erred.", ErrorBatch, ErrorOccurrence, errors, Errors, "The errors, at most 100.");
batch!("What was logged as events.", EventBatch, Event, events, Events, "The events, at most 100.");
batch!("What was written to logs.", LogBatch, LogLine, lines, Logs, "The lines, at most 100.");
