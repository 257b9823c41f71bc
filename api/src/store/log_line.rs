//! Log lines, listed by cluster or over all clusters. Their texts lie encrypted, so searching them is reading them.

use std::collections::{BTreeMap, HashMap};

use entity::{
    ids::{ClusterId, KeyTime, LogLineId, WorkerId},
    log_line::{Column, Entity, Model, Source},
};
use sea_orm::{ColumnTrait, Condition, PaginatorTrait, QueryFilter, QuerySelect, Select};

use super::{
    account_list::{TimeRange, unsaid},
    arrival::Arrivals,
    cluster_filter::ClusterFilter,
    error::StoreError,
    lists,
    page::{self, End, Key, Page, PageRequest, Sort},
    scoped::AccountStore,
    sealed::RowName,
    search::search,
    upsert::first_wins,
};
use crate::{
    domain::{bounded::Text, report::LogReport},
    seal::SealError,
};

/// How many lines are read in search of some words before the search has to be continued by a cursor.
pub const LINES_PER_SEARCH: u64 = 1_000;

/// How many lines an extract of a log has, if not for its last millisecond.
const LINES_AT_ONCE: usize = 1_000;

/// How many lines are read for an extract.
const LINES_PER_EXTRACT: usize = 100_000;

/// How many of them are read by one statement: what an extract has, and enough to see where its last millisecond ends.
const LINES_PER_STATEMENT: u64 = 1_200;

/// The orders log lines can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogSort {
    /// The line that was written first comes first.
    OldestFirst,
    /// The same over all clusters.
    OldestOfAllFirst,
    /// In the order in which they arrived.
    AsArrived,
}

impl Sort for LogSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        match self {
            Self::OldestFirst => "logged_at:asc",
            Self::OldestOfAllFirst => "logged_at,cluster_id:asc",
            Self::AsArrived => "arrived_at:asc",
        }
    }

    fn columns(self) -> Vec<Column> {
        match self {
            Self::OldestFirst => vec![Column::LoggedAt, Column::Id],
            Self::OldestOfAllFirst => vec![Column::LoggedAt, Column::ClusterId, Column::Id],
            Self::AsArrived => vec![Column::ArrivedAt, Column::ClusterId, Column::LoggedAt, Column::Id],
        }
    }

    fn descending(self) -> bool {
        false
    }

    fn accepts(self, key: &Key) -> bool {
        match self {
            Self::OldestFirst => key.is_time_in_cluster(),
            Self::OldestOfAllFirst => key.is_time_in_account(),
            // Streams have cursors of their own.
            Self::AsArrived => false,
        }
    }

    fn key(self, row: &Model) -> Key {
        match self {
            Self::OldestFirst => Key::time_in_cluster(row.logged_at, row.id),
            Self::OldestOfAllFirst => Key::time_in_account(row.logged_at, row.cluster_id, row.id),
            Self::AsArrived => Key::arrival(row.arrived_at, row.cluster_id, row.logged_at, row.id),
        }
    }
}

/// Which log lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogParent {
    /// Of which cluster.
    pub cluster: ClusterId,
    /// Written when.
    pub at: TimeRange,
    /// Of which of its lines.
    pub filter: LogFilter,
}

/// What is wanted of a log; nothing said means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogFilter {
    /// Of one of these levels.
    pub levels: Option<Vec<String>>,
    /// Of one of these kinds of process.
    pub sources: Option<Vec<Source>>,
    /// Of this worker.
    pub worker: Option<WorkerId>,
    /// Of one of these processes.
    pub processes: Option<Processes>,
}

/// Some processes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Processes {
    /// Whether the scheduler is one of them.
    pub scheduler: bool,
    /// The workers, with their nannies.
    pub workers: Vec<WorkerId>,
}

impl Processes {
    fn condition(&self) -> Condition {
        let scheduler = self.scheduler.then(|| Column::Source.eq(Source::Scheduler));
        // Of none, this is none.
        Condition::any().add_option(scheduler).add(Column::WorkerId.is_in(self.workers.iter().copied()))
    }
}

/// Which log lines of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountLogs {
    /// Of which clusters.
    pub clusters: ClusterFilter,
    /// Written when.
    pub at: TimeRange,
    /// Of which of their lines.
    pub filter: LogFilter,
}

impl LogParent {
    fn condition(&self) -> Condition {
        self.filter.condition().add(Column::ClusterId.eq(self.cluster))
    }
}

impl LogFilter {
    fn condition(&self) -> Condition {
        let Self { levels, sources, worker, processes } = self;
        let mut all = Condition::all();
        if let Some(levels) = levels {
            all = all.add(Column::Level.is_in(levels.iter().map(String::as_str)));
        }
        if let Some(sources) = sources {
            all = all.add(Column::Source.is_in(sources.iter().copied()));
        }
        if let Some(worker) = worker {
            all = all.add(Column::WorkerId.eq(*worker));
        }
        all.add_option(processes.as_ref().map(Processes::condition))
    }
}

impl AccountStore {
    /// The same page of the log lines of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.log_line.pages", skip_all)]
    pub async fn log_pages(
        &self,
        parents: &[LogParent],
        sort: LogSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let of = |parent: &LogParent| self.log_lines(parent, sort, request);
        lists::fetch_each(&self.reads(), parents.iter().map(of).collect(), sort, request).await
    }

    /// The first lines of a cluster in a time that can be read and contain `words`, if there are any, in any case of letters:
    /// those of the millisecond in which the time begins, 1,000 behind it, and then those of the same millisecond
    /// as the last one. So whoever goes on from that millisecond misses none, and gets further. At most 100,000 lines are read.
    ///
    /// # Errors
    /// When the database does not answer, or [`StoreError::TooMuch`].
    #[tracing::instrument(name = "store.log_line.extract", skip_all)]
    pub async fn log_extract(
        &self,
        parent: &LogParent,
        words: Option<&str>,
    ) -> Result<Vec<Model>, StoreError> {
        let (sort, words) = (LogSort::OldestFirst, words.map(str::to_lowercase));
        let mut request = PageRequest::from(End::First, LINES_PER_STATEMENT);
        let (mut found, mut further, mut read) = (Vec::<Model>::new(), 0, 0);
        loop {
            let select = self.log_lines(parent, sort, &request);
            let page = page::fetch(&self.reads(), select, sort, &request).await?;
            read += page.rows.len();
            let (has_next, last) = (page.has_next, page.rows.last().map(|(key, _)| key.clone()));
            for (_, row) in page.rows {
                let last = found.last().map(|last| last.logged_at);
                if further >= LINES_AT_ONCE && last != Some(row.logged_at) {
                    return Ok(found);
                }
                if words.as_ref().is_none_or(|words| self.log_contains(&row, words)) {
                    further += usize::from(parent.at.0 != Some(row.logged_at.0));
                    found.push(row);
                }
            }
            if !has_next {
                return Ok(found);
            }
            if read >= LINES_PER_EXTRACT {
                return Err(StoreError::TooMuch(
                    "more than 100000 lines would have to be read: ask for a shorter time, or for another filter",
                ));
            }
            request.after = last;
        }
    }

    /// The lines of a parent, for a page of them.
    fn log_lines(&self, parent: &LogParent, sort: LogSort, request: &PageRequest) -> Select<Entity> {
        let select = self.during(Column::LoggedAt, unsaid(parent.at, sort.descending(), request));
        select.filter(parent.condition())
    }

    /// How many log lines each parent has; parents without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.log_line.counts", skip_all)]
    pub async fn log_counts(&self, parents: &[LogParent]) -> Result<HashMap<LogParent, i64>, StoreError> {
        // One statement for all clusters whose logs are asked for in the same way.
        let mut alike: HashMap<_, Vec<&LogParent>> = HashMap::new();
        for parent in parents {
            alike.entry((parent.at, &parent.filter)).or_default().push(parent);
        }
        let mut counts = HashMap::new();
        for ((at, filter), parents) in alike {
            let rows: Vec<(ClusterId, i64)> = self
                .during::<Entity>(Column::LoggedAt, at)
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_in(parents.iter().map(|parent| parent.cluster)))
                .filter(filter.condition())
                .group_by(Column::ClusterId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            let parent = |cluster| LogParent { cluster, at, filter: filter.clone() };
            counts.extend(rows.into_iter().map(|(cluster, count)| (parent(cluster), count)));
        }
        Ok(counts)
    }

    /// A page of those lines that can be read and contain `words`, in any case of letters. At most
    /// [`LINES_PER_SEARCH`] lines are read.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.log_line.search", skip_all)]
    pub async fn log_search(
        &self,
        parent: &LogParent,
        words: &str,
        sort: LogSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.log_lines(parent, sort, request);
        let lines = PageRequest { limit: LINES_PER_SEARCH, ..request.clone() };
        let page = page::fetch(&self.reads(), select, sort, &lines).await?;
        Ok(self.with_words(page, words, request))
    }

    /// A page of the lines of all clusters that a filter passes. With `words` as [`Self::log_search`].
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.log_line.page", skip_all)]
    pub async fn account_log_page(
        &self,
        of: &AccountLogs,
        words: Option<&str>,
        sort: LogSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.during(Column::LoggedAt, unsaid(of.at, sort.descending(), request));
        let condition = self.account_logs(of);
        let Some(words) = words else {
            return search(&self.reads(), select, condition, sort, request).await;
        };
        let lines = PageRequest { limit: LINES_PER_SEARCH, ..request.clone() };
        let page = search(&self.reads(), select, condition, sort, &lines).await?;
        Ok(self.with_words(page, words, request))
    }

    /// How many lines of all clusters a filter passes.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.log_line.count", skip_all)]
    pub async fn account_log_count(&self, of: &AccountLogs) -> Result<u64, StoreError> {
        let lines = self.during::<Entity>(Column::LoggedAt, of.at).filter(self.account_logs(of));
        Ok(lines.count(&self.reads()).await?)
    }

    fn account_logs(&self, of: &AccountLogs) -> Condition {
        of.filter.condition().add_option(self.of_clusters(&of.clusters, Column::ClusterId))
    }

    fn with_words(&self, page: Page<Model>, words: &str, request: &PageRequest) -> Page<Model> {
        let words = words.to_lowercase();
        // What cannot be read is not what was searched for.
        page.search(request, |row| self.log_contains(row, &words))
    }

    /// Whether a line can be read and contains some words, which are in lower case.
    pub(crate) fn log_contains(&self, row: &Model, words: &str) -> bool {
        self.log_message(row).is_ok_and(|message| message.to_lowercase().contains(words))
    }

    /// Lines that arrived, in that order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.log_line.arrived", skip_all)]
    pub async fn arrived_logs(
        &self,
        of: &AccountLogs,
        arrivals: &[Arrivals],
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let columns = (Column::ArrivedAt, Column::ClusterId, Column::LoggedAt, Column::Id);
        self.as_arrived(arrivals, columns, self.account_logs(of), LogSort::AsArrived, limit).await
    }

    /// The last `count` lines of each worker, or of its nanny, in the order they were written.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.log_line.last", skip_all)]
    pub async fn last_log_lines(
        &self,
        cluster: ClusterId,
        workers: &[WorkerId],
        count: u64,
    ) -> Result<HashMap<WorkerId, Vec<Model>>, StoreError> {
        let of = |worker: &WorkerId| LogParent {
            cluster,
            at: (None, None),
            filter: LogFilter { worker: Some(*worker), ..LogFilter::default() },
        };
        let parents: Vec<LogParent> = workers.iter().map(of).collect();
        let request = PageRequest::from(End::Last, count);
        let pages = self.log_pages(&parents, LogSort::OldestFirst, &request).await?;
        let lines = pages.into_iter().map(|page| page.rows.into_iter().map(|(_, row)| row).collect());
        Ok(workers.iter().copied().zip(lines).collect())
    }

    /// The text of a log line.
    ///
    /// # Errors
    /// [`StoreError::Sealed`] when it cannot be decrypted.
    pub fn log_message(&self, row: &Model) -> Result<String, StoreError> {
        let name = self.log_row(row.cluster_id, row.logged_at, row.id);
        let plain = self.unseal(&name, row.key_id, &row.sealed)?;
        String::from_utf8(plain).map_err(|_| StoreError::Sealed(SealError::Damaged))
    }

    fn log_row(&self, cluster: ClusterId, at: KeyTime, id: LogLineId) -> RowName {
        let key: [&[u8]; 3] = [&cluster.0.to_le_bytes(), &at.0.to_le_bytes(), id.0.as_bytes()];
        RowName::new("log_lines", self.account_id(), &key)
    }

    /// Writes the log lines of a report.
    pub(crate) async fn record_logs(
        &self,
        cluster: ClusterId,
        arrival: i64,
        reports: &[LogReport],
    ) -> Result<(), StoreError> {
        // By key: transactions must lock in one order.
        let rows = reports.iter().map(|report| {
            let at = KeyTime::from(report.at.timestamp());
            let sealed = self.seal(&self.log_row(cluster, at, report.id), report.message.as_str().as_bytes());
            Model {
                account_id: self.account_id(),
                cluster_id: cluster,
                logged_at: at,
                id: report.id,
                source: report.source.into(),
                worker_id: report.worker_id,
                worker: report.worker.clone().map(Text::into_string),
                level: report.level.as_str().to_owned(),
                logger: report.logger.as_str().to_owned(),
                repeated: report.repeated.get(),
                key_id: sealed.key_id,
                sealed: sealed.bytes,
                arrived_at: arrival,
            }
        });
        let rows: BTreeMap<_, _> = rows.map(|row| ((row.logged_at, row.id), row)).collect();
        self.insert::<Entity>(rows.into_values().collect(), &first_wins::<Entity>()).await?;
        Ok(())
    }
}
