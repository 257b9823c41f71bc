//! What some work of some clusters spent, told apart by whatever is asked for.
//!
//! Thread time adds up: what tasks spent on each of their activities, and what threads were idle, are the threads
//! integrated over the time in which the work was there. That holds for each cluster, and exactly, since sums are
//! made of whole millionths. What workers do beside their tasks takes no thread, and is no part of that.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use entity::ids::{ClusterId, SpanId, UserId};

use super::{
    fine_metric::{Cells, EXECUTE, Label, SECONDS, Unreadable},
    millionths::Millionths,
};

/// Sums that are held for one breakdown at the most.
const MAX_SUMS: usize = 500_000;

/// What values are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// The function or operation.
    Function,
    /// What was done.
    Activity,
    /// Where in Dask it was measured.
    Context,
    /// The tags from the outermost span to the innermost.
    Span,
    /// Each tag on that path.
    Tag,
    /// The cluster.
    Cluster,
    /// The user whose cluster it is.
    User,
}

/// What kind of value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Measured while threads executed tasks.
    Tasks,
    /// Measured beside that.
    Beside,
    /// Thread time without one of the work's tasks.
    Idle,
    /// What was measured of tasks beyond the thread time there was: less than nothing.
    Overcounted,
    /// Thread time of which nothing was measured.
    NotCollected,
}

/// What a value is of. What is not told apart is none, and so is what it does not have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What kind of value it is.
    pub part: Part,
    /// Whether it belongs to spans.
    pub span_attributable: bool,
    /// The tags from the outermost span to the innermost.
    pub path: Option<Arc<[String]>>,
    /// One of those tags.
    pub tag: Option<String>,
    /// Where in Dask it was measured.
    pub context: Option<String>,
    /// The function or operation.
    pub function: Option<String>,
    /// What was done.
    pub activity: Option<String>,
    /// The cluster.
    pub cluster: Option<ClusterId>,
    /// The user whose cluster it is.
    pub user: Option<UserId>,
}

impl Key {
    fn of(part: Part) -> Self {
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

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// What values are told apart by.
    pub by: BTreeSet<Dimension>,
    /// The unit of the values.
    pub unit: String,
    /// Only these functions, if not all.
    pub functions: Option<BTreeSet<String>>,
}

/// The spans of some work, and their paths.
pub type Paths = HashMap<(ClusterId, SpanId), Arc<[String]>>;

/// Whose work it is.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// The clusters, and whose each is.
    pub clusters: BTreeMap<ClusterId, Option<UserId>>,
    /// The spans; none when nobody asked for them.
    pub spans: Option<Paths>,
    /// Whether what belongs to no span, or to another one, is left out.
    pub spans_alone: bool,
}

/// The time a cluster's threads offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// So much while the work was there.
    Known(Millionths),
    /// So much over the cluster's life, since nothing tells when the work was there.
    WholeLife(Millionths),
    /// The work was there, and nothing tells of threads.
    Unknown,
    /// There was no such work.
    Nothing,
}

/// What values of one row belong to, besides their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Group {
    path: Option<Arc<[String]>>,
    tag: Option<String>,
    cluster: Option<ClusterId>,
    user: Option<UserId>,
}

/// A breakdown under way.
#[derive(Debug)]
pub struct Breakdown {
    question: Question,
    sums: HashMap<Group, HashMap<(Arc<Label>, bool), Millionths>>,
    held: usize,
    units: BTreeSet<String>,
    tasks: Millionths,
    beside: Millionths,
    /// What tasks of each cluster executed that was measured at all.
    executed: HashMap<ClusterId, Millionths>,
}

impl Breakdown {
    /// With nothing in it yet.
    #[must_use]
    pub fn new(question: Question) -> Self {
        Self {
            question,
            sums: HashMap::new(),
            held: 0,
            units: BTreeSet::new(),
            tasks: Millionths::default(),
            beside: Millionths::default(),
            executed: HashMap::new(),
        }
    }

    /// Adds what was packed of a span, or of what belongs to none. What is no part of the work is left out.
    ///
    /// # Errors
    /// When there are too many sums.
    pub fn add(
        &mut self,
        work: &Work,
        cluster: ClusterId,
        span: Option<SpanId>,
        cells: &Cells,
    ) -> Result<(), Unreadable> {
        let Some(user) = work.clusters.get(&cluster) else { return Ok(()) };
        let path = span.zip(work.spans.as_ref()).and_then(|(span, spans)| spans.get(&(cluster, span)));
        if work.spans_alone && path.is_none() {
            return Ok(());
        }
        let groups = self.groups(cluster, *user, path);
        let mut executed = Millionths::default();
        for (of, value) in cells.iter() {
            let (label, value) = (&of.0, Millionths::of(value));
            if label.context == EXECUTE && label.unit == SECONDS {
                executed += value;
            }
            let functions = self.question.functions.as_ref();
            let is_wanted = |function: &String| functions.is_none_or(|wanted| wanted.contains(function));
            if functions.is_some() && !label.function.as_ref().is_some_and(is_wanted) {
                continue;
            }
            if !self.units.contains(&label.unit) {
                self.units.insert(label.unit.clone());
            }
            if label.unit != self.question.unit {
                continue;
            }
            *(if label.context == EXECUTE { &mut self.tasks } else { &mut self.beside }) += value;
            for group in &groups {
                let sums = match self.sums.get_mut(group) {
                    Some(sums) => sums,
                    None => self.sums.entry(group.clone()).or_default(),
                };
                if let Some(sum) = sums.get_mut(of) {
                    *sum += value;
                } else {
                    sums.insert(of.clone(), value);
                    self.held += 1;
                }
            }
            if self.held > MAX_SUMS {
                return Err(Unreadable::TooMany);
            }
        }
        *self.executed.entry(cluster).or_default() += executed;
        Ok(())
    }

    fn has(&self, dimension: Dimension) -> bool {
        self.question.by.contains(&dimension)
    }

    /// What the values of a span belong to: with tags, once to each on its path.
    fn groups(&self, cluster: ClusterId, user: Option<UserId>, path: Option<&Arc<[String]>>) -> Vec<Group> {
        let group = Group {
            path: path.filter(|_| self.has(Dimension::Span)).cloned(),
            tag: None,
            cluster: self.has(Dimension::Cluster).then_some(cluster),
            user: user.filter(|_| self.has(Dimension::User)),
        };
        if !self.has(Dimension::Tag) {
            return vec![group];
        }
        let tags: BTreeSet<&String> = path.into_iter().flat_map(|path| path.iter()).collect();
        if tags.is_empty() {
            return vec![group];
        }
        tags.into_iter().map(|tag| Group { tag: Some(tag.clone()), ..group.clone() }).collect()
    }

    /// The rows, with the thread time that each cluster of the work offered.
    #[must_use]
    pub fn table(self, work: &Work, offered: &HashMap<ClusterId, Offered>) -> Table {
        let mut sums: HashMap<Key, Millionths> = HashMap::new();
        for (group, labels) in &self.sums {
            for ((label, span_attributable), value) in labels {
                let named = |dimension, text: &str| self.has(dimension).then(|| text.to_owned());
                let key = Key {
                    part: if label.context == EXECUTE { Part::Tasks } else { Part::Beside },
                    span_attributable: *span_attributable,
                    path: group.path.clone(),
                    tag: group.tag.clone(),
                    context: named(Dimension::Context, &label.context),
                    function: label.function.as_deref().and_then(|name| named(Dimension::Function, name)),
                    activity: named(Dimension::Activity, &label.activity),
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
            table.total += self.beside;
        } else if self.question.functions.is_none() {
            self.thread_time(work, offered, &mut sums, &mut table);
        }
        table.rows = sums.into_iter().map(|(key, value)| Row { key, value }).collect();
        table.rows.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.key.cmp(&b.key)));
        table
    }

    /// Adds what is left of the threads' time.
    fn thread_time(
        &self,
        work: &Work,
        offered: &HashMap<ClusterId, Offered>,
        sums: &mut HashMap<Key, Millionths>,
        table: &mut Table,
    ) {
        for (cluster, user) in &work.clusters {
            let executed = self.executed.get(cluster).copied();
            let offered = offered.get(cluster).copied().unwrap_or(Offered::Nothing);
            let (part, value) = match (offered, executed) {
                (Offered::Known(offered), Some(executed)) if offered < executed => {
                    table.idle = Some(table.idle.unwrap_or_default());
                    (Part::Overcounted, offered - executed)
                }
                (Offered::Known(offered), Some(executed)) => {
                    let idle = offered - executed;
                    table.idle = Some(table.idle.unwrap_or_default() + idle);
                    (Part::Idle, idle)
                }
                (Offered::Known(offered) | Offered::WholeLife(offered), None) => {
                    table.without_metrics += 1;
                    (Part::NotCollected, offered)
                }
                (Offered::Unknown, None) => {
                    table.without_metrics += 1;
                    table.without_threads += 1;
                    continue;
                }
                (Offered::Unknown | Offered::WholeLife(_) | Offered::Nothing, Some(_)) => {
                    table.without_threads += 1;
                    continue;
                }
                (Offered::Nothing, None) => continue,
            };
            let key = Key {
                cluster: self.has(Dimension::Cluster).then_some(*cluster),
                user: user.filter(|_| self.has(Dimension::User)),
                ..Key::of(part)
            };
            *sums.entry(key).or_default() += value;
            table.total += value;
        }
    }
}

/// What some work spent.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What the values count.
    pub unit: String,
    /// The units there are.
    pub units: BTreeSet<String>,
    /// What all values come to that are parts of a whole.
    pub total: Millionths,
    /// Thread time without one of the work's tasks, of the clusters of which it is known; none when it is of none.
    pub idle: Option<Millionths>,
    /// Clusters with the work of which nothing was measured.
    pub without_metrics: usize,
    /// Clusters with the work of whose threads nothing is known for its time.
    pub without_threads: usize,
    /// The values, the largest first.
    pub rows: Vec<Row>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is of.
    pub key: Key,
    /// The value.
    pub value: Millionths,
}

impl Table {
    /// Whether values of this kind are parts of the total.
    #[must_use]
    pub fn counts(&self, part: Part) -> bool {
        part != Part::Beside || self.unit != SECONDS
    }

    /// What one cluster spent, of a table in seconds that tells clusters apart.
    #[must_use]
    pub fn of_cluster(&self, cluster: ClusterId) -> Self {
        let rows = self.rows.iter().filter(|row| row.key.cluster == Some(cluster));
        let rows: Vec<Row> =
            rows.map(|row| Row { key: Key { cluster: None, ..row.key.clone() }, ..row.clone() }).collect();
        let has = |parts: &[Part]| rows.iter().any(|row| parts.contains(&row.key.part));
        let sum = |parts: &dyn Fn(Part) -> bool| -> Millionths {
            rows.iter().filter(|row| parts(row.key.part)).map(|row| row.value).sum()
        };
        let knows_threads = has(&[Part::Idle, Part::Overcounted]);
        Self {
            unit: self.unit.clone(),
            units: self.units.clone(),
            total: sum(&|part| self.counts(part)),
            idle: knows_threads.then(|| sum(&|part| part == Part::Idle)),
            without_metrics: usize::from(has(&[Part::NotCollected])),
            without_threads: usize::from(has(&[Part::Tasks]) && !knows_threads),
            rows,
        }
    }
}

/// What tags and times of spans are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanChoice {
    /// One of these on the path; any when there is none.
    pub tags: HashSet<String>,
    /// From when on their first tasks arrived, in milliseconds.
    pub from: Option<i64>,
    /// Before when they did.
    pub to: Option<i64>,
}

impl SpanChoice {
    /// Whether it leaves anything out.
    #[must_use]
    pub fn is_some(&self) -> bool {
        *self != Self::default()
    }

    /// Whether a span is chosen.
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
        fine_metric::{Labels, pack},
        report::FineMetricCell,
    };

    const CLUSTER: ClusterId = ClusterId(1);

    fn cells(json: &str) -> Cells {
        let cells: Vec<FineMetricCell> = serde_json::from_str(json).expect("cells");
        Labels::default().read(&pack(&cells), true).expect("it was packed")
    }

    fn question(by: &[Dimension], unit: &str) -> Question {
        Question { by: by.iter().copied().collect(), unit: unit.to_owned(), functions: None }
    }

    fn work() -> Work {
        let span = |id: u128| (CLUSTER, SpanId(Uuid::from_u128(id)));
        let path = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Arc<[String]>>();
        let spans = [(span(1), path(&["etl", "load"])), (span(2), path(&["etl", "etl"]))].into();
        Work { clusters: [(CLUSTER, None)].into(), spans: Some(spans), spans_alone: false }
    }

    fn table(question: Question, offered: Offered) -> Table {
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

    fn rows(table: &Table) -> Vec<(Part, Option<String>, f64)> {
        let name = |key: &Key| key.tag.clone().or_else(|| key.activity.clone());
        table.rows.iter().map(|row| (row.key.part, name(&row.key), row.value.value())).collect()
    }

    #[test]
    fn tasks_and_idle_time_are_what_threads_offered() {
        let of = |offered| table(question(&[Dimension::Activity], SECONDS), offered);
        let known = of(Offered::Known(Millionths::of(12.0)));
        let expected = [
            (Part::Beside, Some("send".to_owned()), 18.0),
            (Part::Idle, None, 7.0),
            (Part::Tasks, Some("thread-cpu".to_owned()), 4.0),
            (Part::Tasks, Some("other".to_owned()), 1.0),
        ];
        assert_eq!(rows(&known), expected);
        assert_eq!((known.total.value(), known.idle), (12.0, Some(Millionths::of(7.0))));
        assert_eq!(known.units, ["bytes".to_owned(), "seconds".to_owned()].into());
        let too_little = of(Offered::Known(Millionths::of(4.0)));
        assert_eq!(rows(&too_little).last(), Some(&(Part::Overcounted, None, -1.0)));
        assert_eq!((too_little.total.value(), too_little.idle), (4.0, Some(Millionths::default())));
        let unknown = of(Offered::Unknown);
        assert_eq!((unknown.total.value(), unknown.idle, unknown.without_threads), (5.0, None, 1));
    }

    #[test]
    fn what_was_not_measured_is_not_idle() {
        let nothing = Breakdown::new(question(&[], SECONDS));
        let offered = [(CLUSTER, Offered::WholeLife(Millionths::of(3.0)))].into();
        let table = nothing.table(&work(), &offered);
        assert_eq!(rows(&table), [(Part::NotCollected, None, 3.0)]);
        assert_eq!((table.idle, table.without_metrics), (None, 1));
    }

    #[test]
    fn a_value_counts_once_for_each_tag_and_once_in_all() {
        let tags = table(question(&[Dimension::Tag], "bytes"), Offered::Nothing);
        let expected =
            [(Part::Tasks, Some("etl".to_owned()), 14.0), (Part::Tasks, Some("load".to_owned()), 7.0)];
        assert_eq!(rows(&tags), expected);
        assert_eq!(tags.total, Millionths::of(14.0));
    }

    #[test]
    fn of_some_functions_alone_no_idle_time_is_told() {
        let mut some = question(&[Dimension::Function], SECONDS);
        some.functions = Some(["load".to_owned()].into());
        let table = table(some, Offered::Known(Millionths::of(12.0)));
        assert_eq!(rows(&table), [(Part::Tasks, None, 5.0)]);
        assert_eq!((table.total.value(), table.idle), (5.0, None));
    }

    #[test]
    fn spans_are_chosen_by_any_tag_and_by_when_they_came() {
        let path = ["etl".to_owned(), "load".to_owned()];
        let choice = |tags: &[&str], from, to| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            SpanChoice { tags, from, to }.has(&path, 5)
        };
        assert!(choice(&[], None, None) && choice(&["x", "load"], Some(5), Some(6)));
        assert!(!choice(&["x"], None, None) && !choice(&[], Some(6), None) && !choice(&[], None, Some(5)));
    }
}
