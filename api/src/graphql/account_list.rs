//! Lists over all clusters of an account.

use async_graphql::{InputObject, Object};
use chrono::{DateTime, Utc};

use super::{
    argument::{at_most, storable, texts},
    cluster_list::{ClusterFilter, TimeRange},
    computation::{Computation, RunState},
    connection::{Connection, PageArguments, counted},
    error::{Alone, ApiError},
    error_group::ErrorOrigin,
    error_occurrence::ErrorOccurrence,
    event::Event,
    log_line::{LogLine, LogSource},
    scalar::BigInt,
    scope::{AccountScope, Costly},
    span::Span,
};
use crate::store::{
    self, AccountComputations, AccountErrors, AccountEvents, AccountLogs, AccountSpans, ComputationSort,
    ErrorSort, EventSort, LogFilter, LogSort, SpanFilter, SpanSort,
};

/// Values of a list in an argument, each of which is one of the statement.
pub(super) const MAX_VALUES: usize = 100;

/// Which tags the path of a span has, from the outermost span to its own: spans pass that meet every condition that is
/// given. Tags are compared as they are, in upper and lower case.
#[derive(Debug, Default, InputObject)]
pub(super) struct SpanTagMatch {
    /// At least one of these, 1 to 100.
    any: Option<Vec<String>>,
    /// All of these, in any order, 1 to 100.
    all: Option<Vec<String>>,
    /// None of these, 1 to 100.
    none: Option<Vec<String>>,
    /// The path begins with these, in this order, 1 to 100: the span of that path, and all below it.
    under_path: Option<Vec<String>>,
}

impl SpanTagMatch {
    fn check(self) -> Result<store::TagMatch, ApiError> {
        let checked = |argument, tags: Option<Vec<String>>| match tags {
            None => Ok(Vec::new()),
            Some(tags) if tags.is_empty() || tags.len() > MAX_VALUES => {
                Err(ApiError::invalid(argument, format!("must be 1 to {MAX_VALUES}, not {}", tags.len())))
            }
            Some(tags) => {
                tags.iter().try_for_each(|tag| storable(argument, tag))?;
                Ok(tags)
            }
        };
        Ok(store::TagMatch {
            any: checked("any", self.any)?,
            all: checked("all", self.all)?,
            none: checked("none", self.none)?,
            under: checked("underPath", self.under_path)?,
        })
    }
}

/// How a tag of spans was used.
pub(super) struct SpanTag(store::TagUse);

/// How a tag of spans was used.
#[Object]
impl SpanTag {
    /// The tag.
    async fn tag(&self) -> &str {
        &self.0.tag
    }

    /// How many spans have it as their own; those below them are not counted.
    async fn spans(&self) -> BigInt {
        BigInt(self.0.spans)
    }

    /// On how many clusters these ran.
    async fn clusters(&self) -> BigInt {
        BigInt(self.0.clusters)
    }

    /// When the first tasks of the first of these spans arrived, by the scheduler's clock.
    async fn first_used_at(&self) -> DateTime<Utc> {
        self.0.first_at.0
    }

    /// When the first tasks of the last of these spans arrived, by the scheduler's clock.
    async fn last_used_at(&self) -> DateTime<Utc> {
        self.0.last_at.0
    }
}

/// What an account has over all of its clusters.
pub(super) struct AccountLists(pub(super) AccountScope);

/// What an account has over all of its clusters. One query may ask for 50 pages of it.
#[Object]
impl AccountLists {
    /// What was submitted to its clusters, the newest first. With `states` or `clusters`, one page looks at no more than
    /// 10,000 computations: it may hold fewer than asked for, or none, while `hasNextPage` (with `last`,
    /// `hasPreviousPage`) says that there is more to look at and the cursor where to go on.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn computations(
        &self,
        #[graphql(desc = "Only of clusters that pass all of its conditions; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "Only computations in one of these states; in all if absent.")] states: Option<
            Vec<RunState>,
        >,
        #[graphql(desc = "Only what was submitted in this time, by the scheduler's clock.")]
        started_in: Option<TimeRange>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Computation>, ApiError> {
        let sort = ComputationSort::NewestOfAllFirst;
        let request = PageArguments { first, after, last, before }.request(&self.0, sort)?;
        at_most("states", states.as_deref(), MAX_VALUES)?;
        let of = AccountComputations {
            clusters: self.look_through(clusters).await?,
            started_in: milliseconds(started_in),
            states: states.map(|states| states.into_iter().map(Into::into).collect()),
        };
        let page = self.0.store.account_computation_page(&of, sort, &request).await?;
        let store = self.0.store.clone();
        let total = counted(move || {
            let (store, of) = (store.clone(), of.clone());
            async move { store.account_computation_count(&of).await }
        });
        Ok(Connection::new(page, sort, |row| Computation::new(&self.0, row), total))
    }

    /// The spans of its clusters, the newest first. With `roots`, `tags` or `clusters`, one page looks at no more than
    /// 10,000 spans: it may hold fewer than asked for, or none, while `hasNextPage` (with `last`, `hasPreviousPage`) says
    /// that there is more to look at and the cursor where to go on.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn spans(
        &self,
        #[graphql(desc = "Only of clusters that pass all of its conditions; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "Only spans that lie in no other one of the list.", default)] roots: bool,
        #[graphql(desc = "Only spans with these tags on their path; all if absent.")] tags: Option<
            SpanTagMatch,
        >,
        #[graphql(desc = "Only spans whose first tasks arrived in this time, by the scheduler's clock.")]
        enqueued_in: Option<TimeRange>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Span>, ApiError> {
        let sort = SpanSort::NewestOfAllFirst;
        let request = PageArguments { first, after, last, before }.request(&self.0, sort)?;
        let of = AccountSpans {
            clusters: self.look_through(clusters).await?,
            enqueued_in: milliseconds(enqueued_in),
            filter: SpanFilter { roots, tags: tags.unwrap_or_default().check()? },
        };
        let page = self.0.store.account_span_page(&of, sort, &request).await?;
        let store = self.0.store.clone();
        let total = counted(move || {
            let (store, of) = (store.clone(), of.clone());
            async move { store.account_span_count(&of).await }
        });
        Ok(Connection::new(page, sort, |row| Span::new(&self.0, row), total))
    }

    /// The tags of the spans of its clusters, those that were used last first. The newest 50,000 spans are looked at, of
    /// those whose tasks arrived in the time that is given.
    async fn span_tags(
        &self,
        #[graphql(desc = "Only tags that begin with this text, as it is, at most 1,024 characters.")]
        prefix: Option<String>,
        #[graphql(desc = "Only of clusters that pass all of its conditions; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "Only of spans whose first tasks arrived in this time, by the scheduler's clock.")]
        enqueued_in: Option<TimeRange>,
        #[graphql(desc = "The first so many, 1 to 1,000.", default = 100)] first: i32,
    ) -> Result<Vec<SpanTag>, ApiError> {
        let Ok(limit @ 1..=1_000) = u64::try_from(first) else {
            return Err(ApiError::invalid("first", "must be from 1 to 1000"));
        };
        let (clusters, prefix) = (self.look_through(clusters).await?, prefix.unwrap_or_default());
        storable("prefix", &prefix)?;
        let tags = self.0.store.span_tags(&clusters, milliseconds(enqueued_in), &prefix, limit).await?;
        Ok(tags.into_iter().map(SpanTag).collect())
    }

    /// The tasks of its clusters that erred, the newest first by the schedulers' clocks. With `origin`, `types`, `match`
    /// or `clusters`, one page looks at no more than 10,000 errors, and with `match` reads the texts of 500: it may hold
    /// fewer than asked for, or none, while `hasNextPage` (with `last`, `hasPreviousPage`) says that there is more to look
    /// at and the cursor where to go on. `totalCount` does not go by `match`.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn errors(
        &self,
        #[graphql(desc = "Only of clusters that pass all of its conditions; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "Only failures of one kind of code; all if absent.")] origin: Option<ErrorOrigin>,
        #[graphql(desc = "Only exceptions of one of these classes, at most 100; of all if absent.")]
        types: Option<Vec<String>>,
        #[graphql(
            name = "match",
            desc = "Only errors whose message or traceback contains this text, in upper or lower case."
        )]
        words: Option<String>,
        #[graphql(desc = "Only what happened in this time, by the scheduler's clock.")] at: Option<TimeRange>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ErrorOccurrence>, ApiError> {
        let sort = ErrorSort::LatestOfAllFirst;
        let request = PageArguments { first, after, last, before }.request(&self.0, sort)?;
        texts("types", types.as_deref(), MAX_VALUES)?;
        let of = AccountErrors {
            clusters: self.look_through(clusters).await?,
            at: milliseconds(at),
            origin: origin.map(Into::into),
            types,
        };
        let words = words.filter(|words| !words.is_empty());
        let page = self.0.store.account_error_page(&of, words.as_deref(), sort, &request).await?;
        let store = self.0.store.clone();
        let total = counted(move || {
            let (store, of) = (store.clone(), of.clone());
            async move { store.account_error_count(&of).await }
        });
        Ok(Connection::new(page, sort, |row| ErrorOccurrence::new(&self.0, row), total))
    }

    /// What Dask or a user logged with `log_event` on its clusters, in the order it happened: `last` gives the newest. Of
    /// clusters that were there at the time of `at`, at most 500: null, with an error, where they are more. One page looks
    /// at no more than 10,000 events, or of each cluster at one more than it has: with `topics` it may hold fewer than asked
    /// for, or none, while `hasNextPage` (with `last`, `hasPreviousPage`) says that there is more to look at and the cursor
    /// where to go on.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn events(
        &self,
        #[graphql(desc = "Only of clusters that pass all of its conditions; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "Only what was published under one of these, at most 100; all if absent.")]
        topics: Option<Vec<String>>,
        #[graphql(desc = "Only what happened in this time, by the scheduler's clock.")] at: Option<TimeRange>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Alone<Connection<Event>> {
        let events = async {
            let sort = EventSort::OldestOfAllFirst;
            let request = PageArguments { first, after, last, before }.request(&self.0, sort)?;
            texts("topics", topics.as_deref(), MAX_VALUES)?;
            let of =
                AccountEvents { clusters: self.look_through(clusters).await?, at: milliseconds(at), topics };
            let page = self.0.store.account_event_page(&of, sort, &request).await?;
            let store = self.0.store.clone();
            let total = counted(move || {
                let (store, of) = (store.clone(), of.clone());
                async move { store.account_event_count(&of).await }
            });
            Ok(Connection::new(page, sort, |row| Event::new(&self.0, row), total))
        };
        Some(events.await)
    }

    /// Lines of the logs of its clusters, in the order they were written: `last` gives the newest. With any filter but
    /// `at`, one page looks at no more than 10,000 lines, and with `match` reads 1,000: it may hold fewer than asked for,
    /// or none, while `hasNextPage` (with `last`, `hasPreviousPage`) says that there is more to look at and the cursor
    /// where to go on. `totalCount` does not go by `match`; a line that cannot be decrypted matches nothing.
    #[expect(clippy::too_many_arguments, reason = "they are those of the field")]
    async fn logs(
        &self,
        #[graphql(desc = "Only of clusters that pass all of its conditions; of all if absent.")]
        clusters: Option<ClusterFilter>,
        #[graphql(desc = "Only lines of one of these levels, as `WARNING`, at most 20; all if absent.")]
        levels: Option<Vec<String>>,
        #[graphql(desc = "Only lines of these kinds of process, at most 20; all if absent.")] sources: Option<
            Vec<LogSource>,
        >,
        #[graphql(name = "match", desc = "Only lines that contain this text, in upper or lower case.")]
        words: Option<String>,
        #[graphql(desc = "Only what was written in this time, by the clock of its process.")] at: Option<
            TimeRange,
        >,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<LogLine>, ApiError> {
        let sort = LogSort::OldestOfAllFirst;
        let request = PageArguments { first, after, last, before }.request(&self.0, sort)?;
        texts("levels", levels.as_deref(), 20)?;
        at_most("sources", sources.as_deref(), 20)?;
        let sources = sources.map(|sources| sources.into_iter().map(Into::into).collect());
        let of = AccountLogs {
            clusters: self.look_through(clusters).await?,
            at: milliseconds(at),
            filter: LogFilter { levels, sources, ..LogFilter::default() },
        };
        let words = words.filter(|words| !words.is_empty());
        let page = self.0.store.account_log_page(&of, words.as_deref(), sort, &request).await?;
        let store = self.0.store.clone();
        let total = counted(move || {
            let (store, of) = (store.clone(), of.clone());
            async move { store.account_log_count(&of).await }
        });
        Ok(Connection::new(page, sort, |row| LogLine::new(&self.0, row), total))
    }
}

impl AccountLists {
    /// Whose rows a page looks through, which a request may do so often.
    async fn look_through(&self, filter: Option<ClusterFilter>) -> Result<store::ClusterFilter, ApiError> {
        self.0.take(Costly::Searches, 1)?;
        filter.unwrap_or_default().check(&self.0).await
    }
}

pub(super) fn milliseconds(range: Option<TimeRange>) -> store::TimeRange {
    range.map_or((None, None), TimeRange::milliseconds)
}
