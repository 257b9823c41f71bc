//! Fine performance metrics: how the cells of one span are packed into a row, and summed over several.

use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::report::FineMetricCell;
use crate::compression::{compress, decompress};

/// Where Dask keeps metrics without a span: they belong to workers, not to tasks.
const WITHOUT_SPAN: [&str; 3] = ["gather-dep", "get-data", "memory-monitor"];

/// Where tasks run.
pub(super) const EXECUTE: &str = "execute";

/// Labels that are summed together at the most: a span has at most 5,000.
const MAX_LABELS: usize = 50_000;

/// Bytes the cells of one span unpack to at the most: more than a whole report has.
const MAX_JSON: usize = 32 << 20;

/// The unit of times.
pub const SECONDS: &str = "seconds";

/// What a value is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// Where in Dask it was measured.
    pub context: String,
    /// The function or operation, if it belongs to one.
    pub function: Option<String>,
    /// What was done.
    pub activity: String,
    /// What the value counts.
    pub unit: String,
}

/// Why packed cells cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// They are not what was packed.
    #[error("the packed fine metrics of a span cannot be read")]
    Damaged,
    /// With the others that are read together they are too many.
    #[error("the fine metrics have more than 50000 labels")]
    TooMany,
}

/// One cell as it is packed.
type Cell<'a> = (Word<'a>, Option<Word<'a>>, Word<'a>, Word<'a>, f64);

/// A word that is read where it stands, unless something in it is escaped.
#[derive(Deserialize)]
struct Word<'a>(#[serde(borrow)] Cow<'a, str>);

/// Packs the cells of one span: the same cells give the same bytes, in whatever order they came.
#[must_use]
pub(crate) fn pack(cells: &[FineMetricCell]) -> Vec<u8> {
    let mut sorted: Vec<&FineMetricCell> = cells.iter().collect();
    sorted.sort_by(|a, b| {
        (&a.0, &a.1, &a.2, &a.3).cmp(&(&b.0, &b.1, &b.2, &b.3)).then(a.4.get().total_cmp(&b.4.get()))
    });
    compress(&serde_json::to_vec(&sorted).expect("texts and finite numbers are always JSON"))
}

/// What was packed, read: the labels of everything that is summed together are held once.
#[derive(Debug, Default)]
pub struct Labels {
    known: HashSet<Arc<Label>>,
    /// Those of the cells that were read last, in their order: most spans of a cluster have the same.
    last: Vec<Written>,
}

/// What a value is of, and how that is written in front of the value.
#[derive(Clone, Debug)]
struct Written {
    label: Arc<Label>,
    /// Whether values of it belong to spans, if they came with one.
    of_spans: bool,
    /// `["execute","load","thread-cpu","seconds",`, once another cell is compared with it.
    text: OnceCell<Arc<[u8]>>,
}

/// What was packed of one span, or of what belongs to none.
#[derive(Debug)]
pub struct Cells(Vec<(Of, f64)>);

impl Labels {
    /// Reads what was packed of one span, or of what belongs to none.
    ///
    /// # Errors
    /// [`Unreadable`]
    pub fn read(&mut self, packed: &[u8], of_a_span: bool) -> Result<Cells, Unreadable> {
        let json = decompress(packed, MAX_JSON).ok_or(Unreadable::Damaged)?;
        let values = match self.values_of_the_last(&json) {
            Some(values) => values,
            None => self.parse(&json)?,
        };
        let of = |written: &Written| (Arc::clone(&written.label), of_a_span && written.of_spans);
        let cells = self.last.iter().map(of).zip(values).collect();
        if self.known.len() > MAX_LABELS { Err(Unreadable::TooMany) } else { Ok(Cells(cells)) }
    }

    /// The values of cells that differ from those that were read last in nothing else, which takes much less than to read
    /// each word again.
    fn values_of_the_last(&self, json: &[u8]) -> Option<Vec<f64>> {
        let mut values = Vec::with_capacity(self.last.len());
        let mut rest = json.strip_prefix(b"[")?;
        for written in &self.last {
            if !values.is_empty() {
                rest = rest.strip_prefix(b",")?;
            }
            rest = rest.strip_prefix(written.text())?;
            let end = rest.iter().position(|byte| *byte == b']')?;
            values.push(serde_json::from_slice(&rest[..end]).ok()?);
            rest = &rest[end + 1..];
        }
        (rest == b"]").then_some(values)
    }

    /// Reads cells whose labels become those that were read last, and returns their values.
    fn parse(&mut self, json: &[u8]) -> Result<Vec<f64>, Unreadable> {
        let cells: Vec<Cell<'_>> = serde_json::from_slice(json).map_err(|_| Unreadable::Damaged)?;
        let (mut values, mut labels) = (Vec::with_capacity(cells.len()), Vec::with_capacity(cells.len()));
        for (place, cell) in cells.into_iter().enumerate() {
            values.push(cell.4);
            labels.push(match self.last.get(place) {
                Some(written) if written.label.is_of(&cell) => written.clone(),
                _ => Written::new(self.the_same(Label::of(cell))),
            });
        }
        self.last = labels;
        Ok(values)
    }

    fn the_same(&mut self, label: Label) -> Arc<Label> {
        if let Some(known) = self.known.get(&label) {
            return Arc::clone(known);
        }
        let label = Arc::new(label);
        self.known.insert(Arc::clone(&label));
        label
    }
}

impl Written {
    fn new(label: Arc<Label>) -> Self {
        let of_spans = !WITHOUT_SPAN.contains(&label.context.as_str());
        Self { label, of_spans, text: OnceCell::new() }
    }

    fn text(&self) -> &[u8] {
        self.text.get_or_init(|| {
            let Label { context, function, activity, unit } = &*self.label;
            let mut text =
                serde_json::to_vec(&(context, function, activity, unit)).expect("texts are always JSON");
            if let Some(end) = text.last_mut() {
                *end = b',';
            }
            text.into()
        })
    }
}

impl Label {
    fn of((context, function, activity, unit, _): Cell<'_>) -> Self {
        let owned = |word: Word<'_>| word.0.into_owned();
        Self {
            context: owned(context),
            function: function.map(owned),
            activity: owned(activity),
            unit: owned(unit),
        }
    }

    fn is_of(&self, (context, function, activity, unit, _): &Cell<'_>) -> bool {
        // What differs most comes first.
        self.activity == activity.0
            && self.function.as_deref() == function.as_ref().map(|word| &*word.0)
            && self.context == context.0
            && self.unit == unit.0
    }
}

impl Cells {
    /// Those in one unit, or all.
    #[must_use]
    pub fn in_unit(mut self, unit: Option<&str>) -> Self {
        self.0.retain(|((label, _), _)| unit.is_none_or(|unit| label.unit == unit));
        self
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What each value is of, whether that belongs to spans, and the value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Of, f64)> {
        self.0.iter().map(|(of, value)| (of, *value))
    }
}

/// What a value is of, and whether that belongs to spans.
type Of = (Arc<Label>, bool);

/// Sums of metrics over spans.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// In the order in which they were first met.
    sums: Vec<(Of, f64)>,
    /// Where each of them stands.
    places: BTreeMap<Of, usize>,
    packed: usize,
}

/// One value of a [`Table`].
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is of.
    pub label: Label,
    /// Whether it belongs to spans; some metrics only belong to the cluster.
    pub span_attributable: bool,
    /// The value, in the label's unit.
    pub value: f64,
}

impl Table {
    /// Adds what was packed of one span, or of what belongs to none.
    pub fn add(&mut self, cells: &Cells) {
        // Most spans of a cluster have the same labels in the same order, and then nothing is looked up.
        let mut next = 0;
        for (of, value) in &cells.0 {
            let place = match self.sums.get(next) {
                Some((known, _)) if Arc::ptr_eq(&known.0, &of.0) && known.1 == of.1 => next,
                _ => self.place(of),
            };
            self.sums[place].1 += value;
            next = place + 1;
        }
        self.packed += 1;
    }

    fn place(&mut self, of: &Of) -> usize {
        if let Some(place) = self.places.get(of) {
            return *place;
        }
        let place = self.sums.len();
        self.sums.push((of.clone(), 0.0));
        self.places.insert(of.clone(), place);
        place
    }

    /// What each sum is of, and the sum, in the order of their labels.
    fn iter(&self) -> impl Iterator<Item = (&Label, bool, f64)> {
        self.places.values().map(|place| {
            let ((label, span_attributable), value) = &self.sums[*place];
            (&**label, *span_attributable, *value)
        })
    }

    /// How often something was added.
    #[must_use]
    pub fn packed(&self) -> usize {
        self.packed
    }

    /// How many sums there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// The units that occur.
    #[must_use]
    pub fn units(&self) -> BTreeSet<&str> {
        self.iter().map(|(label, ..)| label.unit.as_str()).collect()
    }

    /// The values in one unit or in all: by unit, the largest first.
    #[must_use]
    pub fn rows(&self, unit: Option<&str>) -> Vec<Row> {
        let wanted = self.iter().filter(|(label, ..)| unit.is_none_or(|unit| label.unit == unit));
        let mut rows: Vec<Row> = wanted
            .map(|(label, span_attributable, value)| Row { label: label.clone(), span_attributable, value })
            .collect();
        // Stable, so that equal values keep the order of their labels.
        rows.sort_by(|a, b| a.label.unit.cmp(&b.label.unit).then(b.value.total_cmp(&a.value)));
        rows
    }

    /// What there is of each label, in no order that means anything.
    pub fn sums(&self) -> impl Iterator<Item = (&Label, f64)> {
        self.iter().map(|(label, _, value)| (label, value))
    }

    /// Thread-seconds spent executing tasks; `None` when nothing was measured at all.
    #[must_use]
    pub fn execute_seconds(&self) -> Option<f64> {
        let executing = |label: &Label| label.context == EXECUTE && label.unit == SECONDS;
        let seconds = self.iter().filter(|(label, ..)| executing(label)).map(|(.., value)| value);
        (!self.is_empty()).then(|| seconds.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(json: &str) -> Vec<FineMetricCell> {
        serde_json::from_str(json).expect("cells")
    }

    #[test]
    fn the_order_of_cells_does_not_matter() {
        let one = cells(r#"[["execute","load","thread-cpu","seconds",1.5],["p2p",null,"x","bytes",2]]"#);
        let other = cells(r#"[["p2p",null,"x","bytes",2.0],["execute","load","thread-cpu","seconds",1.5]]"#);
        assert_eq!(pack(&one), pack(&other));
    }

    #[test]
    fn what_was_packed_is_summed() {
        let (mut labels, mut table) = (Labels::default(), Table::default());
        let load = pack(&cells(
            r#"[["execute","load","thread-cpu","seconds",1.5],["execute","load","disk-read","bytes",10]]"#,
        ));
        let none = pack(&cells(r#"[["gather-dep",null,"network","seconds",4]]"#));
        for (packed, of_a_span) in [(&load, true), (&load, true), (&none, false)] {
            table.add(&labels.read(packed, of_a_span).expect("it was packed"));
        }
        let rows: Vec<_> = table
            .rows(None)
            .into_iter()
            .map(|row| (row.label.activity, row.value, row.span_attributable))
            .collect();
        let expected = [("disk-read", 20.0, true), ("network", 4.0, false), ("thread-cpu", 3.0, true)];
        assert_eq!(
            rows,
            expected.map(|(activity, value, of_a_span)| (activity.to_owned(), value, of_a_span))
        );
        assert_eq!(table.rows(Some("seconds")).len(), 2);
        assert_eq!(table.units(), ["bytes", "seconds"].into());
        assert_eq!(table.execute_seconds(), Some(3.0));
        assert_eq!(Table::default().execute_seconds(), None);
        let mut fetching = Table::default();
        fetching.add(&labels.read(&none, false).expect("it was packed"));
        assert_eq!(labels.known.len(), 3, "each is held once");
        assert_eq!(fetching.execute_seconds(), Some(0.0));
    }

    #[test]
    fn what_has_the_labels_of_the_last_is_read_as_if_it_were_the_first() {
        let texts = [
            r#"[["execute","a","thread-cpu","seconds",1.5],["execute","b","thread-cpu","seconds",0.1]]"#,
            // Other values, one label more, one less, another one in the middle, and nothing.
            r#"[["execute","a","thread-cpu","seconds",3],["execute","b","thread-cpu","seconds",1e-7]]"#,
            r#"[["execute","a","thread-cpu","seconds",2],["execute","b","thread-cpu","seconds",4],["x","c","y","z",6]]"#,
            r#"[["execute","a","thread-cpu","seconds",8]]"#,
            r#"[["execute","a","thread-cpu","bytes",8],["execute","a]\"","thread-cpu","seconds",5]]"#,
            r#"[["execute","a","thread-cpu","bytes",7],["execute","a]\"","thread-cpu","seconds",6]]"#,
            "[]",
            r#"[["execute",null,"thread-cpu","seconds",9]]"#,
        ];
        let mut labels = Labels::default();
        let read = |labels: &mut Labels, text: &str| {
            let cells = labels.read(&pack(&cells(text)), true).expect("it was packed");
            cells.iter().map(|((label, of_a_span), value)| ((**label).clone(), *of_a_span, value)).collect()
        };
        for text in texts {
            let expected: Vec<(Label, bool, f64)> = read(&mut Labels::default(), text);
            assert_eq!(expected.len(), cells(text).len());
            let first: Vec<_> = read(&mut labels, text);
            let again: Vec<_> = read(&mut labels, text);
            assert_eq!((&first, &again), (&expected, &expected), "{text}");
        }
        // What begins like the last and goes on as it must not.
        read(&mut labels, texts[0]);
        let plain = serde_json::to_string(&cells(texts[0])).expect("JSON");
        for damaged in
            [plain.replace("]]", "]"), plain.replace("]]", "],]"), plain.replace("0.1", "0.1,2"), plain + "x"]
        {
            assert_eq!(
                labels.read(&compress(damaged.as_bytes()), true).err(),
                Some(Unreadable::Damaged),
                "{damaged}"
            );
        }
    }

    #[test]
    fn damage_is_noticed() {
        assert_eq!(Labels::default().read(b"nothing of ours", true).err(), Some(Unreadable::Damaged));
        // Spaces without end, which take next to nothing as they are packed.
        let long = vec![b' '; MAX_JSON + 1];
        let long = zstd::bulk::compress(&[&long[..], b"[]"].concat(), 1).expect("it is compressed");
        assert_eq!(Labels::default().read(&long, true).err(), Some(Unreadable::Damaged));
    }

    #[test]
    fn labels_without_end_are_refused() {
        let part = |part: usize| {
            let cell = |n: usize| format!(r#"["execute","f{}","thread-cpu","seconds",1]"#, part * 5_000 + n);
            pack(&cells(&format!("[{}]", (0..5_000).map(cell).collect::<Vec<_>>().join(","))))
        };
        let mut labels = Labels::default();
        assert!((0..10).all(|n| labels.read(&part(n), true).is_ok()));
        assert!(labels.read(&part(3), true).is_ok(), "these are known");
        assert_eq!(labels.read(&part(10), true).err(), Some(Unreadable::TooMany));
    }
}
