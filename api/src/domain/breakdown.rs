//! Breakdown of the resources that selected work used on selected clusters, by the requested dimensions.
//!
//! Thread time is additive: the time of each activity of the tasks plus the idle time of the threads
//! equals the number of threads integrated over the time in which the work was present. This holds
//! exactly for each cluster, because sums are held in whole millionths. Work that workers do outside of
//! tasks occupies no thread and is not part of this sum.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use entity::ids::{ClusterId, SpanId, UserId};

use super::{
    fine_metric::{Cells, EXECUTE, Label, ReadCellsError, SECONDS},
    fixed_point::Millionths,
};

/// The largest number of sums that one breakdown holds in memory.
const MAX_SUMS: usize = 500_000;

/// A dimension by which a breakdown groups its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// The function or operation.
    Function,
    /// The activity.
    Activity,
    /// The part of Dask that measured the value.
    Context,
    /// The path of a span: its tags from the outermost span to the innermost.
    Span,
    /// Each tag on that path. A value with several tags counts once for each of them.
    Tag,
    /// The cluster.
    Cluster,
    /// The user that owns the cluster.
    User,
}

/// The part of the measurement to which a value belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueKind {
    /// Measured while threads executed tasks.
    Tasks,
    /// Measured outside of the execution of tasks.
    OutsideTasks,
    /// Thread time in which no task of the selected work ran.
    Idle,
    /// The excess of the measured task time over the available thread time. Such a value is negative.
    Overcounted,
    /// Thread time without any measurement.
    NotCollected,
}

/// The group of a value. A field is `None` if the breakdown does not group by it or if the value has
/// none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The kind of the value.
    pub part: ValueKind,
    /// True if the value belongs to a span.
    pub span_attributable: bool,
    /// The tags of the span's path, from the outermost span to the innermost.
    pub path: Option<Arc<[String]>>,
    /// One tag of that path.
    pub tag: Option<String>,
    /// The part of Dask that measured the value.
    pub context: Option<String>,
    /// The function or operation.
    pub function: Option<String>,
    /// The activity.
    pub activity: Option<String>,
    /// The cluster.
    pub cluster: Option<ClusterId>,
    /// The user that owns the cluster.
    pub user: Option<UserId>,
}

impl RowKey {
    fn of(part: ValueKind) -> Self {
        Self {
            part,
            span_attributable: false,
            path: None,
            tag: None,
            context: None,
            function: None,
            activity: None,
            cluster: None,
            user: None,
        }
    }
}

/// The parameters of a breakdown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BreakdownQuery {
    /// The dimensions to group by.
    pub by: BTreeSet<Dimension>,
    /// The unit of the values.
    pub unit: String,
    /// The functions to include. `None` includes all.
    pub functions: Option<BTreeSet<String>>,
}

/// The paths of the selected spans, by cluster and span.
pub type Paths = HashMap<(ClusterId, SpanId), Arc<[String]>>;

/// The selection of work that a breakdown covers.
#[derive(Clone, Debug, Default)]
pub struct WorkSelection {
    /// The clusters and the owner of each.
    pub clusters: BTreeMap<ClusterId, Option<UserId>>,
    /// The selected spans. `None` if the request does not need spans.
    pub spans: Option<Paths>,
    /// True if values without a span and values of other spans are excluded.
    pub only_selected_spans: bool,
}

/// The thread time that a cluster provided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AvailableThreadTime {
    /// The thread time while the work was present.
    Known(Millionths),
    /// The thread time over the cluster's whole life. No data states when the work was present.
    WholeLife(Millionths),
    /// The work was present, but no data states the number of threads.
    Unknown,
    /// The cluster has no such work.
    NoSuchWork,
}

/// The group of a value, apart from the value's label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Group {
    path: Option<Arc<[String]>>,
    tag: Option<String>,
    cluster: Option<ClusterId>,
    user: Option<UserId>,
}

/// A breakdown that accumulates values.
#[derive(Debug)]
pub struct Breakdown {
    question: BreakdownQuery,
    sums: HashMap<Group, HashMap<(Arc<Label>, bool), Millionths>>,
    sum_count: usize,
    units: BTreeSet<String>,
    tasks: Millionths,
    outside_tasks: Millionths,
    /// The measured execution time of the tasks of each cluster.
    executed: HashMap<ClusterId, Millionths>,
}

impl Breakdown {
    /// Creates an empty breakdown.
    #[must_use]
    pub fn new(question: BreakdownQuery) -> Self {
        Self {
            question,
            sums: HashMap::new(),
            sum_count: 0,
            units: BTreeSet::new(),
            tasks: Millionths::default(),
            outside_tasks: Millionths::default(),
            executed: HashMap::new(),
        }
    }

    /// Adds the packed values of one span, or of work without a span. Values outside the selection are
    /// skipped.
    ///
    /// # Errors
    /// Returns [`ReadCellsError::TooMany`] if the breakdown exceeds its limit of sums.
    pub fn add(
        &mut self,
        work: &WorkSelection,
        cluster: ClusterId,
        span: Option<SpanId>,
        cells: &Cells,
    ) -> Result<(), ReadCellsError> {
        let Some(user) = work.clusters.get(&cluster) else { return Ok(()) };
        let path = span.zip(work.spans.as_ref()).and_then(|(span, spans)| spans.get(&(cluster, span)));
        if work.only_selected_spans && path.is_none() {
            return Ok(());
        }
        let groups = self.groups(cluster, *user, path);
        let mut executed = Millionths::default();
        for (attributed_label, value) in cells.iter() {
            let (label, value) = (&attributed_label.0, Millionths::of(value));
            if label.context == EXECUTE && label.unit == SECONDS {
                executed += value;
            }
            let functions = self.question.functions.as_ref();
            let is_selected =
                |function: &String| functions.is_none_or(|selected| selected.contains(function));
            if functions.is_some() && !label.function.as_ref().is_some_and(is_selected) {
                continue;
            }
            if !self.units.contains(&label.unit) {
                self.units.insert(label.unit.clone());
            }
            if label.unit != self.question.unit {
                continue;
            }
            *(if label.context == EXECUTE { &mut self.tasks } else { &mut self.outside_tasks }) += value;
            for group in &groups {
                let sums = match self.sums.get_mut(group) {
                    Some(sums) => sums,
                    None => self.sums.entry(group.clone()).or_default(),
                };
                if let Some(sum) = sums.get_mut(attributed_label) {
                    *sum += value;
                } else {
                    sums.insert(attributed_label.clone(), value);
                    self.sum_count += 1;
                }
            }
            if self.sum_count > MAX_SUMS {
                return Err(ReadCellsError::TooMany);
            }
        }
        *self.executed.entry(cluster).or_default() += executed;
        Ok(())
    }

    fn accepts(&self, dimension: Dimension) -> bool {
        self.question.by.contains(&dimension)
    }

    /// Returns the groups of a span's values. When grouping by tag there is one group for each tag of its
    /// path.
    fn groups(&self, cluster: ClusterId, user: Option<UserId>, path: Option<&Arc<[String]>>) -> Vec<Group> {
        let group = Group {
            path: path.filter(|_| self.accepts(Dimension::Span)).cloned(),
            tag: None,
            cluster: self.accepts(Dimension::Cluster).then_some(cluster),
            user: user.filter(|_| self.accepts(Dimension::User)),
        };
        if !self.accepts(Dimension::Tag) {
            return vec![group];
        }
        let tags: BTreeSet<&String> = path.into_iter().flat_map(|path| path.iter()).collect();
        if tags.is_empty() {
            return vec![group];
        }
        tags.into_iter().map(|tag| Group { tag: Some(tag.clone()), ..group.clone() }).collect()
    }

    /// Returns the finished table. `offered` is the thread time that each selected cluster provided.
    #[must_use]
    pub fn table(self, work: &WorkSelection, offered: &HashMap<ClusterId, AvailableThreadTime>) -> Table {
        let mut sums: HashMap<RowKey, Millionths> = HashMap::new();
        for (group, labels) in &self.sums {
            for ((label, span_attributable), value) in labels {
                let text_if_grouped =
                    |dimension, text: &str| self.accepts(dimension).then(|| text.to_owned());
                let key = RowKey {
                    part: if label.context == EXECUTE { ValueKind::Tasks } else { ValueKind::OutsideTasks },
                    span_attributable: *span_attributable,
                    path: group.path.clone(),
                    tag: group.tag.clone(),
                    context: text_if_grouped(Dimension::Context, &label.context),
                    function: label
                        .function
                        .as_deref()
                        .and_then(|name| text_if_grouped(Dimension::Function, name)),
                    activity: text_if_grouped(Dimension::Activity, &label.activity),
                    cluster: group.cluster,
                    user: group.user,
                };
                *sums.entry(key).or_default() += *value;
            }
        }
        let mut table = Table {
            unit: self.question.unit.clone(),
            total: self.tasks,
            units: self.units.clone(),
            idle: None,
            without_metrics: 0,
            without_threads: 0,
            rows: Vec::new(),
        };
        if self.question.unit != SECONDS {
            table.total += self.outside_tasks;
        } else if self.question.functions.is_none() {
            self.add_thread_time(work, offered, &mut sums, &mut table);
        }
        table.rows = sums.into_iter().map(|(key, value)| Row { key, value }).collect();
        table.rows.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.key.cmp(&b.key)));
        table
    }

    /// Adds the remaining thread time of each cluster, as a value of its own kind.
    fn add_thread_time(
        &self,
        work: &WorkSelection,
        offered: &HashMap<ClusterId, AvailableThreadTime>,
        sums: &mut HashMap<RowKey, Millionths>,
        table: &mut Table,
    ) {
        for (cluster, user) in &work.clusters {
            let executed = self.executed.get(cluster).copied();
            let offered = offered.get(cluster).copied().unwrap_or(AvailableThreadTime::NoSuchWork);
            let (part, value) = match (offered, executed) {
                (AvailableThreadTime::Known(offered), Some(executed)) if offered < executed => {
                    table.idle = Some(table.idle.unwrap_or_default());
                    (ValueKind::Overcounted, offered - executed)
                }
                (AvailableThreadTime::Known(offered), Some(executed)) => {
                    let idle = offered - executed;
                    table.idle = Some(table.idle.unwrap_or_default() + idle);
                    (ValueKind::Idle, idle)
                }
                (AvailableThreadTime::Known(offered) | AvailableThreadTime::WholeLife(offered), None) => {
                    table.without_metrics += 1;
                    (ValueKind::NotCollected, offered)
                }
                (AvailableThreadTime::Unknown, None) => {
                    table.without_metrics += 1;
                    table.without_threads += 1;
                    continue;
                }
                (
                    AvailableThreadTime::Unknown
                    | AvailableThreadTime::WholeLife(_)
                    | AvailableThreadTime::NoSuchWork,
                    Some(_),
                ) => {
                    table.without_threads += 1;
                    continue;
                }
                (AvailableThreadTime::NoSuchWork, None) => continue,
            };
            let key = RowKey {
                cluster: self.accepts(Dimension::Cluster).then_some(*cluster),
                user: user.filter(|_| self.accepts(Dimension::User)),
                ..RowKey::of(part)
            };
            *sums.entry(key).or_default() += value;
            table.total += value;
        }
    }
}

/// The result of a breakdown.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The unit of the values.
    pub unit: String,
    /// The units for which the selected work has values.
    pub units: BTreeSet<String>,
    /// The sum of all values that are parts of the whole.
    pub total: Millionths,
    /// Thread time in which no task of the work ran, over the clusters for which it is known. `None` if
    /// it is known for none of them.
    pub idle: Option<Millionths>,
    /// The number of clusters with the work that have no measurements.
    pub without_metrics: usize,
    /// The number of clusters with the work whose threads during that time are unknown.
    pub without_threads: usize,
    /// The rows, by descending value.
    pub rows: Vec<Row>,
}

/// One row of a breakdown.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The group of the value.
    pub key: RowKey,
    /// The value.
    pub value: Millionths,
}

impl Table {
    /// Returns true if values of this kind are parts of the total.
    #[must_use]
    pub fn is_part_of_total(&self, part: ValueKind) -> bool {
        part != ValueKind::OutsideTasks || self.unit != SECONDS
    }

    /// Returns the table of one cluster. This table must be in seconds and grouped by cluster.
    #[must_use]
    pub fn of_cluster(&self, cluster: ClusterId) -> Self {
        let rows = self.rows.iter().filter(|row| row.key.cluster == Some(cluster));
        let rows: Vec<Row> =
            rows.map(|row| Row { key: RowKey { cluster: None, ..row.key.clone() }, ..row.clone() }).collect();
        let has_kinds = |kinds: &[ValueKind]| rows.iter().any(|row| kinds.contains(&row.key.part));
        let sum = |kinds: &dyn Fn(ValueKind) -> bool| -> Millionths {
            rows.iter().filter(|row| kinds(row.key.part)).map(|row| row.value).sum()
        };
        let knows_threads = has_kinds(&[ValueKind::Idle, ValueKind::Overcounted]);
        Self {
            unit: self.unit.clone(),
            units: self.units.clone(),
            total: sum(&|kind| self.is_part_of_total(kind)),
            idle: knows_threads.then(|| sum(&|kind| kind == ValueKind::Idle)),
            without_metrics: usize::from(has_kinds(&[ValueKind::NotCollected])),
            without_threads: usize::from(has_kinds(&[ValueKind::Tasks]) && !knows_threads),
            rows,
        }
    }
}

/// A filter on the tags and times of spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanFilter {
    /// Tags of which at least one must be on the path. An empty set matches every path.
    pub tags: HashSet<String>,
    /// The earliest arrival of the span's first tasks, inclusive, in milliseconds.
    pub from: Option<i64>,
    /// The latest arrival of the span's first tasks, exclusive, in milliseconds.
    pub to: Option<i64>,
}

impl SpanFilter {
    /// Returns true if the filter excludes any span.
    #[must_use]
    pub fn is_some(&self) -> bool {
        *self != Self::default()
    }

    /// Returns true if the filter accepts the span.
    #[must_use]
    pub fn has(&self, path: &[String], enqueued: i64) -> bool {
        (self.tags.is_empty() || path.iter().any(|tag| self.tags.contains(tag)))
            && self.from.is_none_or(|from| from <= enqueued)
            && self.to.is_none_or(|to| enqueued < to)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::{
        fine_metric::{CellReader, pack},
        report::FineMetricCell,
    };

    const CLUSTER: ClusterId = ClusterId(1);

    fn cells(json: &str) -> Cells {
        let cells: Vec<FineMetricCell> = serde_json::from_str(json).expect("cells");
        CellReader::default().read(&pack(&cells), true).expect("it was packed")
    }

    fn question(by: &[Dimension], unit: &str) -> BreakdownQuery {
        BreakdownQuery { by: by.iter().copied().collect(), unit: unit.to_owned(), functions: None }
    }

    fn work() -> WorkSelection {
        let span = |id: u128| (CLUSTER, SpanId(Uuid::from_u128(id)));
        let path = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Arc<[String]>>();
        let spans = [(span(1), path(&["etl", "load"])), (span(2), path(&["etl", "etl"]))].into();
        WorkSelection { clusters: [(CLUSTER, None)].into(), spans: Some(spans), only_selected_spans: false }
    }

    fn table(question: BreakdownQuery, offered: AvailableThreadTime) -> Table {
        let mut breakdown = Breakdown::new(question);
        let span = |id: u128| Some(SpanId(Uuid::from_u128(id)));
        let load = cells(
            r#"[["execute","load","thread-cpu","seconds",2],["execute","load","other","seconds",0.5],
            ["execute","load","disk-read","bytes",7],["p2p","foreground","send","seconds",9]]"#,
        );
        breakdown.add(&work(), CLUSTER, span(1), &load).expect("few sums");
        breakdown.add(&work(), CLUSTER, span(2), &load).expect("few sums");
        breakdown.add(&work(), ClusterId(9), span(1), &load).expect("it is not of the work");
        breakdown.table(&work(), &[(CLUSTER, offered)].into())
    }

    fn rows(table: &Table) -> Vec<(ValueKind, Option<String>, f64)> {
        let name = |key: &RowKey| key.tag.clone().or_else(|| key.activity.clone());
        table.rows.iter().map(|row| (row.key.part, name(&row.key), row.value.value())).collect()
    }

    #[test]
    fn tasks_and_idle_time_are_what_threads_offered() {
        let of = |offered| table(question(&[Dimension::Activity], SECONDS), offered);
        let known = of(AvailableThreadTime::Known(Millionths::of(12.0)));
        let expected = [
            (ValueKind::OutsideTasks, Some("send".to_owned()), 18.0),
            (ValueKind::Idle, None, 7.0),
            (ValueKind::Tasks, Some("thread-cpu".to_owned()), 4.0),
            (ValueKind::Tasks, Some("other".to_owned()), 1.0),
        ];
        assert_eq!(rows(&known), expected);
        assert_eq!((known.total.value(), known.idle), (12.0, Some(Millionths::of(7.0))));
        assert_eq!(known.units, ["bytes".to_owned(), "seconds".to_owned()].into());
        let too_little = of(AvailableThreadTime::Known(Millionths::of(4.0)));
        assert_eq!(rows(&too_little).last(), Some(&(ValueKind::Overcounted, None, -1.0)));
        assert_eq!((too_little.total.value(), too_little.idle), (4.0, Some(Millionths::default())));
        let unknown = of(AvailableThreadTime::Unknown);
        assert_eq!((unknown.total.value(), unknown.idle, unknown.without_threads), (5.0, None, 1));
    }

    #[test]
    fn what_was_not_measured_is_not_idle() {
        let nothing = Breakdown::new(question(&[], SECONDS));
        let offered = [(CLUSTER, AvailableThreadTime::WholeLife(Millionths::of(3.0)))].into();
        let table = nothing.table(&work(), &offered);
        assert_eq!(rows(&table), [(ValueKind::NotCollected, None, 3.0)]);
        assert_eq!((table.idle, table.without_metrics), (None, 1));
    }

    #[test]
    fn a_value_counts_once_for_each_tag_and_once_in_all() {
        let tags = table(question(&[Dimension::Tag], "bytes"), AvailableThreadTime::NoSuchWork);
        let expected = [
            (ValueKind::Tasks, Some("etl".to_owned()), 14.0),
            (ValueKind::Tasks, Some("load".to_owned()), 7.0),
        ];
        assert_eq!(rows(&tags), expected);
        assert_eq!(tags.total, Millionths::of(14.0));
    }

    #[test]
    fn of_some_functions_alone_no_idle_time_is_told() {
        let mut some = question(&[Dimension::Function], SECONDS);
        some.functions = Some(["load".to_owned()].into());
        let table = table(some, AvailableThreadTime::Known(Millionths::of(12.0)));
        assert_eq!(rows(&table), [(ValueKind::Tasks, None, 5.0)]);
        assert_eq!((table.total.value(), table.idle), (5.0, None));
    }

    #[test]
    fn spans_are_chosen_by_any_tag_and_by_when_they_came() {
        let path = ["etl".to_owned(), "load".to_owned()];
        let choice = |tags: &[&str], from, to| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            SpanFilter { tags, from, to }.has(&path, 5)
        };
        assert!(choice(&[], None, None) && choice(&["x", "load"], Some(5), Some(6)));
        assert!(!choice(&["x"], None, None) && !choice(&[], Some(6), None) && !choice(&[], None, Some(5)));
    }
}
