//! Lists over all clusters of an account: computations, spans, errors, events and log lines.

use async_graphql::{InputObject, Object};
use chrono::{DateTime, Utc};

use super::search::{self, SearchResult, SearchType};
use crate::{
    graphql::{
        clusters::{
            cluster_list::{ClusterFilter, TimeRange},
            facet::{EventListFields, LogListFields},
        },
        computations::{
            computation::{Computation, RunState},
            span::Span,
        },
        engine::{
            argument::{check_max_len, check_text, check_text_list},
            connection::{Connection, PageArguments, total_count_by},
            error::{ApiError, NullOnError},
            scalar::BigInt,
            scope::{AccountScope, QuotaKind},
        },
        errors::{error_group::ErrorOrigin, error_occurrence::ErrorOccurrence},
        telemetry::{
            event::{Event, EventConnection},
            log_line::{LogConnection, LogLine, LogSource},
        },
    },
    store::{
        self, AccountComputations, AccountErrors, AccountEvents, AccountLogs, AccountSpans, ComputationSort,
        ErrorSort, EventSort, FacetRows, LogFilter, LogSort, SpanFilter, SpanSort, TagText,
    },
};

/// The maximum number of values in a list argument. Each value becomes a parameter of the statement.
pub(crate) const MAX_VALUES: usize = 100;

/// Conditions on the tags of a span's path, from the outermost span to the span itself. A span has to
/// meet all given conditions. Tags are compared exactly, including upper and lower case.
#[derive(Debug, Default, InputObject)]
pub(crate) struct SpanTagMatch {
    /// At least one of these tags, 1 to 100.
    any: Option<Vec<String>>,
    /// All of these tags, in any order, 1 to 100.
    all: Option<Vec<String>>,
    /// None of these tags, 1 to 100.
    none: Option<Vec<String>>,
    /// The tags that the path begins with, in this order, 1 to 100. Matches the span with this path and
    /// all spans below it.
    under_path: Option<Vec<String>>,
}

impl SpanTagMatch {
    fn check(self) -> Result<store::TagMatch, ApiError> {
        let check_tags = |argument, tags: Option<Vec<String>>| match tags {
            None => Ok(Vec::new()),
            Some(tags) if tags.is_empty() || tags.len() > MAX_VALUES => {
                Err(ApiError::invalid(argument, format!("must be 1 to {MAX_VALUES}, not {}", tags.len())))
            }
            Some(tags) => {
                tags.iter().try_for_each(|tag| check_text(argument, tag))?;
                Ok(tags)
            }
        };
        Ok(store::TagMatch {
            any: check_tags("any", self.any)?,
            all: check_tags("all", self.all)?,
            none: check_tags("none", self.none)?,
            under: check_tags("underPath", self.under_path)?,
        })
    }
}

/// The use of one tag of spans.
pub(crate) struct SpanTag(pub(crate) store::TagUse);

/// The use of one tag of spans.
#[Object]
impl SpanTag {
    /// The tag.
    async fn tag(&self) -> &str {
        &self.0.tag
    }

    /// The number of spans with this tag. Spans below them are not counted.
    async fn spans(&self) -> BigInt {
        BigInt(self.0.spans)
    }

    /// The number of clusters on which these spans ran.
    async fn clusters(&self) -> BigInt {
        BigInt(self.0.clusters)
    }

    /// The time at which the first tasks of the earliest of these spans arrived, by the scheduler's
    /// clock.
    async fn first_used_at(&self) -> DateTime<Utc> {
        self.0.first_at.0
    }

    /// The time at which the first tasks of the latest of these spans arrived, by the scheduler's clock.
    async fn last_used_at(&self) -> DateTime<Utc> {
        self.0.last_at.0
    }
}

/// The lists of an account over all of its clusters.
pub(crate) struct AccountLists(pub(crate) AccountScope);

/// The lists of an account over all of its clusters. One query may request at most 50 pages of them.
#[Object]
impl AccountLists {
    /// The clusters, error groups, functions, span tags and users that a text search finds, at most `first`
    /// of each type, in the order of the types. `SearchType` lists the searched properties. An object is
    /// found if one of them contains the text; the number of a cluster must equal the text. Ignores the case
    /// of the letters A to Z. Each type counts as one of the 50 pages of lists over all clusters that one
    /// query may request.
    async fn search(
        &self,
        #[graphql(desc = "The text, 1 to 200 characters.")] text: String,
        #[graphql(desc = "Only objects of these types. Null for all types.")] types: Option<Vec<SearchType>>,
        #[graphql(desc = "The number of results of each type, 1 to 20.", default = 5)] first: i32,
    ) -> Result<Vec<SearchResult>, ApiError> {
        check_max_len("types", types.as_deref(), MAX_VALUES)?;
        search::search(&self.0, &text, types, first).await
    }

    /// The computations of all clusters of the account, the newest first. With `states` or `clusters`,
    /// one page examines at most 10,000 computations.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn computations(
        &self,
        #[graphql(desc = "Only items of clusters that pass this filter. Null for all clusters.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "Only computations in one of these states. Null for all states.")] states: Option<
            Vec<RunState>,
        >,
        #[graphql(desc = "Only computations submitted in this period, by the scheduler's clock.")]
        started_in: Option<TimeRange>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Computation>, ApiError> {
        let sort = ComputationSort::NewestOfAllFirst;
        let request = PageArguments { first, after, last, before }.request(&self.0, sort)?;
        check_max_len("states", states.as_deref(), MAX_VALUES)?;
        let selection = AccountComputations {
            clusters: self.charge_search(clusters).await?,
            started_in: TimeRange::range_of_argument("startedIn", started_in)?,
            states: states.map(|states| states.into_iter().map(Into::into).collect()),
        };
        let page = self.0.store.account_computation_page(&selection, sort, &request).await?;
        let store = self.0.store.clone();
        let total = total_count_by(move || {
            let (store, selection) = (store.clone(), selection.clone());
            async move { store.account_computation_count(&selection).await }
        });
        Ok(Connection::new(page, sort, |row| Computation::new(&self.0, row), total))
    }

    /// The spans of all clusters of the account, the newest first. With `roots`, `tags` or `clusters`,
    /// one page examines at most 10,000 spans.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn spans(
        &self,
        #[graphql(desc = "Only items of clusters that pass this filter. Null for all clusters.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "If true, only spans that are not nested in another span of the list.", default)]
        roots: bool,
        #[graphql(desc = "Only spans with these tags on their path. Null for all spans.")] tags: Option<
            SpanTagMatch,
        >,
        #[graphql(desc = "Only spans whose first tasks arrived in this period, by the scheduler's clock.")]
        enqueued_in: Option<TimeRange>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Span>, ApiError> {
        let sort = SpanSort::NewestOfAllFirst;
        let request = PageArguments { first, after, last, before }.request(&self.0, sort)?;
        let selection = AccountSpans {
            clusters: self.charge_search(clusters).await?,
            enqueued_in: TimeRange::range_of_argument("enqueuedIn", enqueued_in)?,
            filter: SpanFilter { roots, tags: tags.unwrap_or_default().check()? },
        };
        let page = self.0.store.account_span_page(&selection, sort, &request).await?;
        let store = self.0.store.clone();
        let total = total_count_by(move || {
            let (store, selection) = (store.clone(), selection.clone());
            async move { store.account_span_count(&selection).await }
        });
        Ok(Connection::new(page, sort, |row| Span::new(&self.0, row), total))
    }

    /// The tags of the spans of all clusters of the account, the most recently used tag first. Examines
    /// the newest 50,000 spans whose tasks arrived in `enqueuedIn`.
    async fn span_tags(
        &self,
        #[graphql(desc = "Only tags that begin with exactly this text, at most 1,024 characters.")]
        prefix: Option<String>,
        #[graphql(desc = "Only tags of clusters that pass this filter. Null for all clusters.")]
        clusters: Option<ClusterFilter>,
        #[graphql(
            desc = "Only tags of spans whose first tasks arrived in this period, by the scheduler's clock."
        )]
        enqueued_in: Option<TimeRange>,
        #[graphql(desc = "The number of tags, 1 to 1,000.", default = 100)] first: i32,
    ) -> Result<Vec<SpanTag>, ApiError> {
        let Ok(limit @ 1..=1_000) = u64::try_from(first) else {
            return Err(ApiError::invalid("first", "must be from 1 to 1000"));
        };
        let (clusters, prefix) = (self.charge_search(clusters).await?, prefix.unwrap_or_default());
        check_text("prefix", &prefix)?;
        let tags = self
            .0
            .store
            .span_tags(
                &clusters,
                TimeRange::range_of_argument("enqueuedIn", enqueued_in)?,
                TagText::StartsWith(&prefix),
                limit,
            )
            .await?;
        Ok(tags.into_iter().map(SpanTag).collect())
    }

    /// The failed tasks of all clusters of the account, the newest first by the schedulers' clocks. With
    /// `origin`, `types`, `match` or `clusters`, one page examines at most 10,000 errors, and with
    /// `match` reads the texts of 500. `totalCount` does not take `match` into account.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn errors(
        &self,
        #[graphql(desc = "Only items of clusters that pass this filter. Null for all clusters.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "Only errors of this origin. Null for all.")] origin: Option<ErrorOrigin>,
        #[graphql(desc = "Only exceptions of one of these classes, at most 100. Null for all.")]
        types: Option<Vec<String>>,
        #[graphql(
            name = "match",
            desc = "Only errors whose message or traceback contains this text, ignoring case."
        )]
        search_text: Option<String>,
        #[graphql(desc = "Only errors that occurred within this period, by the scheduler's clock.")]
        at: Option<TimeRange>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ErrorOccurrence>, ApiError> {
        let sort = ErrorSort::LatestOfAllFirst;
        let request = PageArguments { first, after, last, before }.request(&self.0, sort)?;
        check_text_list("types", types.as_deref(), MAX_VALUES)?;
        let selection = AccountErrors {
            clusters: self.charge_search(clusters).await?,
            at: TimeRange::range_of_argument("at", at)?,
            origin: origin.map(Into::into),
            types,
        };
        let search_text = search_text.filter(|text| !text.is_empty());
        let page =
            self.0.store.account_error_page(&selection, search_text.as_deref(), sort, &request).await?;
        let store = self.0.store.clone();
        let total = total_count_by(move || {
            let (store, selection) = (store.clone(), selection.clone());
            async move { store.account_error_count(&selection).await }
        });
        Ok(Connection::new(page, sort, |row| ErrorOccurrence::new(&self.0, row), total))
    }

    /// The events that Dask or a user logged with `log_event` on the account's clusters, the oldest first;
    /// `last` returns the newest. Covers at most 500 clusters that existed in the period `at`. One page
    /// examines at most 10,000 events in total, but always one more event of each cluster than the page
    /// holds. With `topics`, it may hold fewer items than requested. Null, with the error code
    /// `BAD_USER_INPUT`, if there are more than 500 such clusters.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn events(
        &self,
        #[graphql(desc = "Only items of clusters that pass this filter. Null for all clusters.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "Only events of one of these topics, at most 100. Null for all topics.")]
        topics: Option<Vec<String>>,
        #[graphql(desc = "Only events that occurred within this period, by the scheduler's clock.")]
        at: Option<TimeRange>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> NullOnError<EventConnection> {
        let events = async {
            let sort = EventSort::OldestOfAllFirst;
            let request = PageArguments { first, after, last, before }.request(&self.0, sort)?;
            check_text_list("topics", topics.as_deref(), MAX_VALUES)?;
            let selection = AccountEvents {
                clusters: self.charge_search(clusters).await?,
                at: TimeRange::range_of_argument("at", at)?,
                topics,
            };
            let page = self.0.store.account_event_page(&selection, sort, &request).await?;
            let events = FacetRows::OfAccount(selection.clone());
            let fields = EventListFields { scope: self.0.clone(), events };
            let store = self.0.store.clone();
            let total = total_count_by(move || {
                let (store, selection) = (store.clone(), selection.clone());
                async move { store.account_event_count(&selection).await }
            });
            Ok(Connection::new(page, sort, |row| Event::new(&self.0, row), total).with_fields(fields))
        };
        Some(events.await)
    }

    /// The log lines of all clusters of the account, the oldest first; `last` returns the newest. With
    /// any filter but `at`, one page examines at most 10,000 lines, and with `match` reads 1,000.
    /// `totalCount` does not take `match` into account. A line that cannot be decrypted matches no text.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn logs(
        &self,
        #[graphql(desc = "Only items of clusters that pass this filter. Null for all clusters.")]
        clusters: Option<ClusterFilter>,
        #[graphql(
            desc = "Only lines of one of these levels, such as `WARNING`, at most 20. Null for all levels."
        )]
        levels: Option<Vec<String>>,
        #[graphql(desc = "Only lines of these kinds of process, at most 20. Null for all.")] sources: Option<
            Vec<LogSource>,
        >,
        #[graphql(name = "match", desc = "Only lines that contain this text, in upper or lower case.")]
        search_text: Option<String>,
        #[graphql(desc = "Only lines written in this period, by the clock of their process.")] at: Option<
            TimeRange,
        >,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<LogConnection, ApiError> {
        let sort = LogSort::OldestOfAllFirst;
        let request = PageArguments { first, after, last, before }.request(&self.0, sort)?;
        check_text_list("levels", levels.as_deref(), 20)?;
        check_max_len("sources", sources.as_deref(), 20)?;
        let sources = sources.map(|sources| sources.into_iter().map(Into::into).collect());
        let selection = AccountLogs {
            clusters: self.charge_search(clusters).await?,
            at: TimeRange::range_of_argument("at", at)?,
            filter: LogFilter { levels, sources, ..LogFilter::default() },
        };
        let search_text = search_text.filter(|text| !text.is_empty());
        let page = self.0.store.account_log_page(&selection, search_text.as_deref(), sort, &request).await?;
        let fields = LogListFields { scope: self.0.clone(), lines: FacetRows::OfAccount(selection.clone()) };
        let store = self.0.store.clone();
        let total = total_count_by(move || {
            let (store, selection) = (store.clone(), selection.clone());
            async move { store.account_log_count(&selection).await }
        });
        Ok(Connection::new(page, sort, |row| LogLine::new(&self.0, row), total).with_fields(fields))
    }
}

impl AccountLists {
    /// Returns the checked filter of clusters for a page that examines rows, and charges the page to the
    /// request's quota of searches.
    async fn charge_search(&self, filter: Option<ClusterFilter>) -> Result<store::ClusterFilter, ApiError> {
        self.0.charge(QuotaKind::Searches, 1)?;
        filter.unwrap_or_default().check(&self.0).await
    }
}
