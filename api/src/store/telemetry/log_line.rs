//! Log lines, listed by cluster or over all clusters. Their messages are encrypted, so a search has to
//! read and decrypt them.

use std::collections::{BTreeMap, HashMap};

use entity::{
    ids::{ClusterId, KeyTime, LogLineId, WorkerId},
    log_line::{Column, Entity, Model, Source},
};
use sea_orm::{ColumnTrait, Condition, PaginatorTrait, QueryFilter, QuerySelect, Select};

use crate::{
    domain::{report::LogReport, validated::Text},
    encryption::DecryptError,
    store::{
        clusters::{
            cluster_filter::ClusterFilter,
            cross_cluster::{TimeRange, remaining_range},
        },
        core::{
            change_feed::PendingChanges,
            composite_in::IsOneOf,
            error::StoreError,
            multi_list,
            page::{self, End, Key, Page, PageRequest, Sort},
            read_rows::ReadSelect,
            row_encryption::AssociatedData,
            scoped::AccountStore,
            search::scan_page,
            upsert::keep_existing_row,
        },
    },
};

/// The number of lines that one search reads. The search continues from a cursor after that.
pub const LINES_PER_SEARCH: u64 = 1_000;

/// The number of lines of a log extract, not counting the lines in the first millisecond of the range and
/// the remaining lines of the extract's last millisecond.
const LINES_PER_EXTRACT: usize = 1_000;

/// The largest number of lines read for an extract.
const MAX_LINES_READ: usize = 100_000;

/// The number of lines that one statement reads for an extract: more than [`LINES_PER_EXTRACT`], to find
/// the end of the last millisecond.
const LINES_PER_STATEMENT: u64 = 1_200;

/// The sort orders of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogSort {
    /// By the time of logging, the oldest first, within one cluster.
    OldestFirst,
    /// By the time of logging, the oldest first, over all clusters.
    OldestOfAllFirst,
    /// By arrival, the earliest first.
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

/// The log lines of one cluster that match a filter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogParent {
    /// The cluster.
    pub cluster: ClusterId,
    /// The time range of the lines.
    pub at: TimeRange,
    /// The filter for the lines.
    pub filter: LogFilter,
}

/// A filter for log lines. A field that is `None` matches every line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogFilter {
    /// The levels to match.
    pub levels: Option<Vec<String>>,
    /// The kinds of process to match.
    pub sources: Option<Vec<Source>>,
    /// The worker to match.
    pub worker: Option<WorkerId>,
    /// The processes to match.
    pub processes: Option<Processes>,
}

/// Some processes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Processes {
    /// True if the scheduler is one of them.
    pub scheduler: bool,
    /// The workers, each with its nanny.
    pub workers: Vec<WorkerId>,
}

impl Processes {
    fn condition(&self) -> Condition {
        let scheduler = self.scheduler.then(|| Column::Source.eq(Source::Scheduler));
        // Without a scheduler and workers, the condition matches no line.
        Condition::any().add_option(scheduler).add(Column::WorkerId.is_one_of(self.workers.iter().copied()))
    }
}

/// The log lines of an account that match a filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountLogs {
    /// The clusters.
    pub clusters: ClusterFilter,
    /// The time range of the lines.
    pub at: TimeRange,
    /// The filter for the lines.
    pub filter: LogFilter,
}

impl LogParent {
    fn condition(&self) -> Condition {
        self.filter.condition().add(Column::ClusterId.eq(self.cluster))
    }
}

impl LogFilter {
    pub(crate) fn condition(&self) -> Condition {
        let Self { levels, sources, worker, processes } = self;
        let mut condition = Condition::all();
        if let Some(levels) = levels {
            condition = condition.add(Column::Level.is_one_of(levels.iter().map(String::as_str)));
        }
        if let Some(sources) = sources {
            condition = condition.add(Column::Source.is_one_of(sources.iter().copied()));
        }
        if let Some(worker) = worker {
            condition = condition.add(Column::WorkerId.eq(*worker));
        }
        condition.add_option(processes.as_ref().map(Processes::condition))
    }
}

impl AccountStore {
    /// Returns the same page of the log lines of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.log_line.pages", skip_all)]
    pub async fn log_pages(
        &self,
        parents: &[LogParent],
        sort: LogSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let select_lines = |parent: &LogParent| self.select_log_lines(parent, sort, request);
        multi_list::fetch_pages(
            &self.read_executor(),
            parents.iter().map(select_lines).collect(),
            sort,
            request,
        )
        .await
    }

    /// Returns the first lines of a cluster in a time range that can be decrypted and contain
    /// `search_text`, ignoring case. The extract consists of the lines in the first millisecond of the
    /// range, 1,000 lines after it, and the remaining lines of the same millisecond as the last one. A
    /// caller that continues from that millisecond misses no line and always advances. At most 100,000
    /// lines are read.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, or [`StoreError::TooLarge`] if more lines would
    /// have to be read.
    #[tracing::instrument(name = "store.log_line.extract", skip_all)]
    pub async fn log_extract(
        &self,
        parent: &LogParent,
        search_text: Option<&str>,
    ) -> Result<Vec<Model>, StoreError> {
        let (sort, search_text) = (LogSort::OldestFirst, search_text.map(str::to_lowercase));
        let mut request = PageRequest::from(End::First, LINES_PER_STATEMENT);
        let (mut lines, mut later_lines, mut rows_read) = (Vec::<Model>::new(), 0, 0);
        loop {
            let select = self.select_log_lines(parent, sort, &request);
            let page = page::fetch(&self.read_executor(), select, sort, &request).await?;
            rows_read += page.rows.len();
            let (has_next, last_key) = (page.has_next, page.rows.last().map(|(key, _)| key.clone()));
            for (_, row) in page.rows {
                let last_time = lines.last().map(|line| line.logged_at);
                if later_lines >= LINES_PER_EXTRACT && last_time != Some(row.logged_at) {
                    return Ok(lines);
                }
                if search_text.as_ref().is_none_or(|search_text| self.log_contains(&row, search_text)) {
                    later_lines += usize::from(parent.at.0 != Some(row.logged_at.0));
                    lines.push(row);
                }
            }
            if !has_next {
                return Ok(lines);
            }
            if rows_read >= MAX_LINES_READ {
                return Err(StoreError::TooLarge(
                    "more than 100000 lines would have to be read: request a shorter period, or another \
                     filter",
                ));
            }
            request.after = last_key;
        }
    }

    /// Selects the log lines of a parent, restricted to the range that a page can contain.
    fn select_log_lines(&self, parent: &LogParent, sort: LogSort, request: &PageRequest) -> Select<Entity> {
        let select =
            self.select_in_range(Column::LoggedAt, remaining_range(parent.at, sort.descending(), request));
        select.filter(parent.condition())
    }

    /// Returns a log line of a cluster, by its whole key.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.log_line.get", skip_all)]
    pub async fn log_line(
        &self,
        cluster: ClusterId,
        logged_at: KeyTime,
        id: LogLineId,
    ) -> Result<Option<Model>, StoreError> {
        Ok(self
            .select::<Entity>()
            .filter(Column::ClusterId.eq(cluster))
            .filter(Column::LoggedAt.eq(logged_at))
            .filter(Column::Id.eq(id))
            .one(&self.read_executor())
            .await?)
    }

    /// Returns the number of log lines of each parent. Parents without lines are missing from the map.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.log_line.counts", skip_all)]
    pub async fn log_counts(&self, parents: &[LogParent]) -> Result<HashMap<LogParent, i64>, StoreError> {
        // Parents with the same range and filter share one statement.
        let mut parents_by_filter: HashMap<_, Vec<&LogParent>> = HashMap::new();
        for parent in parents {
            parents_by_filter.entry((parent.at, &parent.filter)).or_default().push(parent);
        }
        let mut counts = HashMap::new();
        for ((at, filter), parents) in parents_by_filter {
            let rows: Vec<(ClusterId, i64)> = self
                .select_in_range::<Entity>(Column::LoggedAt, at)
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_one_of(parents.iter().map(|parent| parent.cluster)))
                .filter(filter.condition())
                .group_by(Column::ClusterId)
                .read_tuples(&self.read_executor())
                .await?;
            let parent = |cluster| LogParent { cluster, at, filter: filter.clone() };
            counts.extend(rows.into_iter().map(|(cluster, count)| (parent(cluster), count)));
        }
        Ok(counts)
    }

    /// Returns a page of the lines that can be decrypted and contain `search_text`, ignoring case. At most
    /// [`LINES_PER_SEARCH`] lines are read.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.log_line.search", skip_all)]
    pub async fn log_search(
        &self,
        parent: &LogParent,
        search_text: &str,
        sort: LogSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.select_log_lines(parent, sort, request);
        let scan_request = PageRequest { limit: LINES_PER_SEARCH, ..request.clone() };
        let page = page::fetch(&self.read_executor(), select, sort, &scan_request).await?;
        Ok(self.filter_by_text(page, search_text, request))
    }

    /// Returns a page of the lines of all clusters that match a filter. `search_text` is searched for as in
    /// [`Self::log_search`].
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.log_line.page", skip_all)]
    pub async fn account_log_page(
        &self,
        filter: &AccountLogs,
        search_text: Option<&str>,
        sort: LogSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select =
            self.select_in_range(Column::LoggedAt, remaining_range(filter.at, sort.descending(), request));
        let condition = self.account_log_condition(filter);
        let Some(search_text) = search_text else {
            return scan_page(&self.read_executor(), select, condition, sort, request).await;
        };
        let scan_request = PageRequest { limit: LINES_PER_SEARCH, ..request.clone() };
        let page = scan_page(&self.read_executor(), select, condition, sort, &scan_request).await?;
        Ok(self.filter_by_text(page, search_text, request))
    }

    /// Returns the number of lines of all clusters that match a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.log_line.count", skip_all)]
    pub async fn account_log_count(&self, filter: &AccountLogs) -> Result<u64, StoreError> {
        let lines = self
            .select_in_range::<Entity>(Column::LoggedAt, filter.at)
            .filter(self.account_log_condition(filter));
        Ok(lines.count(&self.read_executor()).await?)
    }

    pub(crate) fn account_log_condition(&self, filter: &AccountLogs) -> Condition {
        filter.filter.condition().add_option(self.cluster_condition(&filter.clusters, Column::ClusterId))
    }

    fn filter_by_text(&self, page: Page<Model>, search_text: &str, request: &PageRequest) -> Page<Model> {
        let search_text = search_text.to_lowercase();
        // A line that cannot be decrypted does not match.
        page.search(request, |row| self.log_contains(row, &search_text))
    }

    /// Returns true if a line can be decrypted and contains `search_text`, which is in lower case.
    pub(crate) fn log_contains(&self, row: &Model, search_text: &str) -> bool {
        self.log_message(row).is_ok_and(|message| message.to_lowercase().contains(search_text))
    }

    /// Returns the lines that arrived in the given ranges, in the order of their arrival.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.log_line.arrived", skip_all)]
    pub async fn arrived_logs(
        &self,
        filter: &AccountLogs,
        arrivals: &[PendingChanges],
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let columns = (Column::ArrivedAt, Column::ClusterId, Column::LoggedAt, Column::Id);
        self.fetch_in_arrival_order(
            arrivals,
            columns,
            self.account_log_condition(filter),
            LogSort::AsArrived,
            limit,
        )
        .await
    }

    /// Returns the last `count` lines of each worker and its nanny, in the order of logging.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.log_line.last", skip_all)]
    pub async fn last_log_lines(
        &self,
        cluster: ClusterId,
        workers: &[WorkerId],
        count: u64,
    ) -> Result<HashMap<WorkerId, Vec<Model>>, StoreError> {
        let select_worker_lines = |worker: &WorkerId| LogParent {
            cluster,
            at: (None, None),
            filter: LogFilter { worker: Some(*worker), ..LogFilter::default() },
        };
        let parents: Vec<LogParent> = workers.iter().map(select_worker_lines).collect();
        let request = PageRequest::from(End::Last, count);
        let pages = self.log_pages(&parents, LogSort::OldestFirst, &request).await?;
        let lines = pages.into_iter().map(|page| page.rows.into_iter().map(|(_, row)| row).collect());
        Ok(workers.iter().copied().zip(lines).collect())
    }

    /// Returns the decrypted message of a log line.
    ///
    /// # Errors
    /// Returns [`StoreError::Decryption`] if it cannot be decrypted.
    pub fn log_message(&self, row: &Model) -> Result<String, StoreError> {
        let associated_data = self.log_associated_data(row.cluster_id, row.logged_at, row.id);
        let plain = self.decrypt_row(&associated_data, row.key_id, &row.sealed)?;
        String::from_utf8(plain).map_err(|_| StoreError::Decryption(DecryptError::Damaged))
    }

    fn log_associated_data(&self, cluster: ClusterId, logged_at: KeyTime, id: LogLineId) -> AssociatedData {
        let key: [&[u8]; 3] = [&cluster.0.to_le_bytes(), &logged_at.0.to_le_bytes(), id.0.as_bytes()];
        AssociatedData::new("log_lines", self.account_id(), &key)
    }

    /// Inserts the log lines of a report.
    pub(crate) async fn record_logs(
        &self,
        cluster: ClusterId,
        arrival: i64,
        reports: &[LogReport],
    ) -> Result<(), StoreError> {
        // The rows are sorted by key, since all transactions must lock in the same order.
        let rows = reports.iter().map(|report| {
            let logged_at = KeyTime::from(report.at.timestamp());
            let sealed = self.encrypt_bytes(
                &self.log_associated_data(cluster, logged_at, report.id),
                report.message.as_str().as_bytes(),
            );
            Model {
                account_id: self.account_id(),
                cluster_id: cluster,
                logged_at,
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
        self.insert::<Entity>(rows.into_values().collect(), &keep_existing_row::<Entity>()).await?;
        Ok(())
    }
}
