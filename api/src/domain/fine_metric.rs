//! Fine performance metrics: packs the cells of one span into a row and sums the cells of several spans.

use std::{
    borrow::Cow,
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::report::FineMetricCell;
use crate::compression::{compress, decompress};

/// The contexts in which Dask records metrics without a span. These metrics belong to workers, not to
/// tasks.
const WITHOUT_SPAN: [&str; 3] = ["gather-dep", "get-data", "memory-monitor"];

/// The context in which Dask executes tasks.
pub(super) const EXECUTE: &str = "execute";

/// The largest number of labels that are summed together. A span has at most 5,000.
const MAX_LABELS: usize = 50_000;

/// The largest unpacked size of a span's cells, in bytes. It exceeds the limit of a whole report.
const MAX_JSON: usize = 32 << 20;

/// The unit of times.
pub const SECONDS: &str = "seconds";

/// The label of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// The part of Dask that measured the value.
    pub context: String,
    /// The function or operation, if it belongs to one.
    pub function: Option<String>,
    /// The activity.
    pub activity: String,
    /// The unit of the value.
    pub unit: String,
}

/// The reason why packed cells cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadCellsError {
    /// The bytes are not packed cells.
    #[error("the packed fine metrics of a span cannot be read")]
    Damaged,
    /// The number of labels that are read together exceeds the limit.
    #[error("the fine metrics have more than 50000 labels")]
    TooMany,
}

/// One cell in its packed form.
type Cell<'a> = (BorrowedString<'a>, Option<BorrowedString<'a>>, BorrowedString<'a>, BorrowedString<'a>, f64);

/// A string that is borrowed from the input, unless it contains an escape.
#[derive(Deserialize)]
struct BorrowedString<'a>(#[serde(borrow)] Cow<'a, str>);

/// Packs the cells of one span. The same cells give the same bytes in any order.
#[must_use]
pub(crate) fn pack(cells: &[FineMetricCell]) -> Vec<u8> {
    let mut sorted: Vec<&FineMetricCell> = cells.iter().collect();
    sorted.sort_by(|a, b| {
        (&a.0, &a.1, &a.2, &a.3).cmp(&(&b.0, &b.1, &b.2, &b.3)).then(a.4.get().total_cmp(&b.4.get()))
    });
    compress(&serde_json::to_vec(&sorted).expect("texts and finite numbers are always JSON"))
}

/// One sum in its packed form: a cell, and true if it belongs to spans.
type Sum<'a> =
    (BorrowedString<'a>, Option<BorrowedString<'a>>, BorrowedString<'a>, BorrowedString<'a>, f64, bool);

/// A reader of packed cells. It holds each distinct label once for all cells that are summed together.
#[derive(Debug, Default)]
pub struct CellReader {
    labels: HashSet<Arc<Label>>,
    /// The labels of the last cells read, in their order. Most spans of a cluster have the same labels.
    last_labels: Vec<CachedLabel>,
}

/// A label together with its serialized form in front of a value.
#[derive(Clone, Debug)]
struct CachedLabel {
    label: Arc<Label>,
    /// True if values with this label belong to spans, provided that they arrive with a span.
    is_span_attributable: bool,
    /// The serialized prefix, such as `["execute","load","thread-cpu","seconds",`. It is built at the
    /// first comparison with another cell.
    json_prefix: OnceCell<Arc<[u8]>>,
}

/// The unpacked cells of one span, or of work without a span.
#[derive(Debug)]
pub struct Cells(Vec<(AttributedLabel, f64)>);

impl CellReader {
    /// Reads the packed cells of one span, or of work without a span.
    ///
    /// # Errors
    /// Returns [`ReadCellsError`] if the bytes are damaged or the number of labels exceeds the limit.
    pub fn read(&mut self, packed: &[u8], is_of_span: bool) -> Result<Cells, ReadCellsError> {
        let json = decompress(packed, MAX_JSON).ok_or(ReadCellsError::Damaged)?;
        let values = match self.read_with_last_labels(&json) {
            Some(values) => values,
            None => self.parse(&json)?,
        };
        let attribute =
            |cached: &CachedLabel| (Arc::clone(&cached.label), is_of_span && cached.is_span_attributable);
        let cells = self.last_labels.iter().map(attribute).zip(values).collect();
        if self.labels.len() > MAX_LABELS { Err(ReadCellsError::TooMany) } else { Ok(Cells(cells)) }
    }

    /// Returns the values if the cells have exactly the labels of the last cells. This is much cheaper
    /// than parsing each string again.
    fn read_with_last_labels(&self, json: &[u8]) -> Option<Vec<f64>> {
        let mut values = Vec::with_capacity(self.last_labels.len());
        let mut remainder = json.strip_prefix(b"[")?;
        for cached in &self.last_labels {
            if !values.is_empty() {
                remainder = remainder.strip_prefix(b",")?;
            }
            remainder = remainder.strip_prefix(cached.json_prefix())?;
            let end = remainder.iter().position(|byte| *byte == b']')?;
            values.push(serde_json::from_slice(&remainder[..end]).ok()?);
            remainder = &remainder[end + 1..];
        }
        (remainder == b"]").then_some(values)
    }

    /// Parses cells, remembers their labels as the last ones, and returns their values.
    fn parse(&mut self, json: &[u8]) -> Result<Vec<f64>, ReadCellsError> {
        let cells: Vec<Cell<'_>> = serde_json::from_slice(json).map_err(|_| ReadCellsError::Damaged)?;
        let (mut values, mut labels) = (Vec::with_capacity(cells.len()), Vec::with_capacity(cells.len()));
        for (index, cell) in cells.into_iter().enumerate() {
            values.push(cell.4);
            labels.push(match self.last_labels.get(index) {
                Some(cached) if cached.label.is_of(&cell) => cached.clone(),
                _ => CachedLabel::new(self.intern(Label::of(cell))),
            });
        }
        self.last_labels = labels;
        Ok(values)
    }

    /// Reads packed sums.
    ///
    /// # Errors
    /// Returns [`ReadCellsError`] if the bytes are damaged or the number of labels exceeds the limit.
    pub fn read_table(&mut self, packed: &[u8]) -> Result<Table, ReadCellsError> {
        let json = decompress(packed, MAX_JSON).ok_or(ReadCellsError::Damaged)?;
        let sums: Vec<Sum<'_>> = serde_json::from_slice(&json).map_err(|_| ReadCellsError::Damaged)?;
        let mut table = Table { span_count: 1, ..Table::default() };
        for (context, function, activity, unit, value, is_of_span) in sums {
            let label = self.intern(Label::of((context, function, activity, unit, value)));
            let index = table.index_of(&(label, is_of_span));
            table.sums[index].1 += value;
        }
        if self.labels.len() > MAX_LABELS { Err(ReadCellsError::TooMany) } else { Ok(table) }
    }

    fn intern(&mut self, label: Label) -> Arc<Label> {
        if let Some(interned) = self.labels.get(&label) {
            return Arc::clone(interned);
        }
        let label = Arc::new(label);
        self.labels.insert(Arc::clone(&label));
        label
    }
}

impl CachedLabel {
    fn new(label: Arc<Label>) -> Self {
        let is_span_attributable = !WITHOUT_SPAN.contains(&label.context.as_str());
        Self { label, is_span_attributable, json_prefix: OnceCell::new() }
    }

    fn json_prefix(&self) -> &[u8] {
        self.json_prefix.get_or_init(|| {
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
        let owned = |text: BorrowedString<'_>| text.0.into_owned();
        Self {
            context: owned(context),
            function: function.map(owned),
            activity: owned(activity),
            unit: owned(unit),
        }
    }

    fn is_of(&self, (context, function, activity, unit, _): &Cell<'_>) -> bool {
        // The most distinctive field is compared first.
        self.activity == activity.0
            && self.function.as_deref() == function.as_ref().map(|word| &*word.0)
            && self.context == context.0
            && self.unit == unit.0
    }
}

impl Cells {
    /// Keeps the cells of one unit, or all of them if `unit` is `None`.
    #[must_use]
    pub fn in_unit(mut self, unit: Option<&str>) -> Self {
        self.0.retain(|((label, _), _)| unit.is_none_or(|unit| label.unit == unit));
        self
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the labels, their attribution to spans, and the values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AttributedLabel, f64)> {
        self.0.iter().map(|(label, value)| (label, *value))
    }
}

/// A label, and true if its values belong to spans.
type AttributedLabel = (Arc<Label>, bool);

/// Sums of metrics over spans.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The sums in the order of their first occurrence.
    sums: Vec<(AttributedLabel, f64)>,
    /// The index of each sum.
    indexes: BTreeMap<AttributedLabel, usize>,
    span_count: usize,
}

/// One value of a [`Table`].
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The label of the value.
    pub label: Label,
    /// True if the value belongs to spans. Some metrics belong to the cluster only.
    pub span_attributable: bool,
    /// The value, in the label's unit.
    pub value: f64,
}

impl Table {
    /// Adds the cells of one span, or of work without a span.
    pub fn add(&mut self, cells: &Cells) {
        // Most spans of a cluster have the same labels in the same order, so this loop needs no lookup
        // for them.
        let mut expected_index = 0;
        for (label, value) in &cells.0 {
            let index = match self.sums.get(expected_index) {
                Some((stored_label, _))
                    if Arc::ptr_eq(&stored_label.0, &label.0) && stored_label.1 == label.1 =>
                {
                    expected_index
                }
                _ => self.index_of(label),
            };
            self.sums[index].1 += value;
            expected_index = index + 1;
        }
        self.span_count += 1;
    }

    /// Returns the index of the sum of a label, and adds the sum if there is none.
    fn index_of(&mut self, label: &AttributedLabel) -> usize {
        if let Some(index) = self.indexes.get(label) {
            return *index;
        }
        let index = self.sums.len();
        self.sums.push((label.clone(), 0.0));
        self.indexes.insert(label.clone(), index);
        index
    }

    /// Packs the sums. The same sums give the same bytes.
    #[must_use]
    pub(crate) fn pack(&self) -> Vec<u8> {
        let sums: Vec<_> = self
            .iter()
            .map(|(Label { context, function, activity, unit }, is_of_span, value)| {
                (context, function, activity, unit, value, is_of_span)
            })
            .collect();
        compress(&serde_json::to_vec(&sums).expect("texts and numbers are always JSON"))
    }

    /// Iterates over the labels, their attribution to spans, and the sums, in the order of the labels.
    fn iter(&self) -> impl Iterator<Item = (&Label, bool, f64)> {
        self.indexes.values().map(|index| {
            let ((label, span_attributable), value) = &self.sums[*index];
            (&**label, *span_attributable, *value)
        })
    }

    /// Returns the number of spans added. Sums that were packed count as one.
    #[must_use]
    pub fn spans_added(&self) -> usize {
        self.span_count
    }

    /// Returns the number of sums.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Returns true if there are no sums.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Returns the units that occur.
    #[must_use]
    pub fn units(&self) -> BTreeSet<&str> {
        self.iter().map(|(label, ..)| label.unit.as_str()).collect()
    }

    /// Returns the values in one unit, or in all if `unit` is `None`: by unit, then by descending value.
    #[must_use]
    pub fn rows(&self, unit: Option<&str>) -> Vec<Row> {
        let selected = self.iter().filter(|(label, ..)| unit.is_none_or(|unit| label.unit == unit));
        let mut rows: Vec<Row> = selected
            .map(|(label, span_attributable, value)| Row { label: label.clone(), span_attributable, value })
            .collect();
        // The sort is stable, so equal values keep the order of their labels.
        rows.sort_by(|a, b| a.label.unit.cmp(&b.label.unit).then(b.value.total_cmp(&a.value)));
        rows
    }

    /// Iterates over the labels and sums, in no particular order.
    pub fn sums(&self) -> impl Iterator<Item = (&Label, f64)> {
        self.iter().map(|(label, _, value)| (label, value))
    }

    /// Returns the thread time spent on executing tasks, in seconds. Returns `None` if there are no
    /// measurements.
    #[must_use]
    pub fn execute_seconds(&self) -> Option<f64> {
        let is_execution = |label: &Label| label.context == EXECUTE && label.unit == SECONDS;
        let seconds = self.iter().filter(|(label, ..)| is_execution(label)).map(|(.., value)| value);
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
        let (mut labels, mut table) = (CellReader::default(), Table::default());
        let load = pack(&cells(
            r#"[["execute","load","thread-cpu","seconds",1.5],["execute","load","disk-read","bytes",10]]"#,
        ));
        let none = pack(&cells(r#"[["gather-dep",null,"network","seconds",4]]"#));
        for (packed, is_of_span) in [(&load, true), (&load, true), (&none, false)] {
            table.add(&labels.read(packed, is_of_span).expect("it was packed"));
        }
        let rows: Vec<_> = table
            .rows(None)
            .into_iter()
            .map(|row| (row.label.activity, row.value, row.span_attributable))
            .collect();
        let expected = [("disk-read", 20.0, true), ("network", 4.0, false), ("thread-cpu", 3.0, true)];
        assert_eq!(
            rows,
            expected.map(|(activity, value, is_of_span)| (activity.to_owned(), value, is_of_span))
        );
        assert_eq!(table.rows(Some("seconds")).len(), 2);
        assert_eq!(table.units(), ["bytes", "seconds"].into());
        assert_eq!(table.execute_seconds(), Some(3.0));
        assert_eq!(Table::default().execute_seconds(), None);
        let mut fetching = Table::default();
        fetching.add(&labels.read(&none, false).expect("it was packed"));
        assert_eq!(labels.labels.len(), 3, "each is held once");
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
        let mut labels = CellReader::default();
        let read = |labels: &mut CellReader, text: &str| {
            let cells = labels.read(&pack(&cells(text)), true).expect("it was packed");
            cells.iter().map(|((label, is_of_span), value)| ((**label).clone(), *is_of_span, value)).collect()
        };
        for text in texts {
            let expected: Vec<(Label, bool, f64)> = read(&mut CellReader::default(), text);
            assert_eq!(expected.len(), cells(text).len());
            let first: Vec<_> = read(&mut labels, text);
            let again: Vec<_> = read(&mut labels, text);
            assert_eq!((&first, &again), (&expected, &expected), "{text}");
        }
        // Starts like the last cells and continues with damage.
        read(&mut labels, texts[0]);
        let plain = serde_json::to_string(&cells(texts[0])).expect("JSON");
        for damaged in
            [plain.replace("]]", "]"), plain.replace("]]", "],]"), plain.replace("0.1", "0.1,2"), plain + "x"]
        {
            assert_eq!(
                labels.read(&compress(damaged.as_bytes()), true).err(),
                Some(ReadCellsError::Damaged),
                "{damaged}"
            );
        }
    }

    #[test]
    fn packed_sums_are_read_as_they_were() {
        let text =
            cells(r#"[["execute","a","thread-cpu","seconds",0.1],["gather-dep",null,"network","bytes",9]]"#);
        let (mut labels, mut table) = (CellReader::default(), Table::default());
        for is_of_span in [true, true, false, true] {
            table.add(&labels.read(&pack(&text), is_of_span).expect("it was packed"));
        }
        let read = labels.read_table(&table.pack()).expect("it was packed");
        assert_eq!(read.rows(None), table.rows(None));
        assert_eq!((read.len(), read.spans_added()), (3, 1));
        // The sum of three spans and of none, which cannot be written with fewer digits.
        let of_spans: Vec<f64> = read.rows(Some(SECONDS)).iter().map(|row| row.value).collect();
        assert_eq!(of_spans, [0.1 + 0.1 + 0.1, 0.1]);
        let damaged = compress(br#"[["execute","a","thread-cpu","seconds",0.1]]"#);
        assert_eq!(labels.read_table(&damaged).err(), Some(ReadCellsError::Damaged));
        assert_eq!(labels.read_table(b"nothing of ours").err(), Some(ReadCellsError::Damaged));
    }

    #[test]
    fn damage_is_noticed() {
        assert_eq!(CellReader::default().read(b"nothing of ours", true).err(), Some(ReadCellsError::Damaged));
        // A huge run of spaces, which compresses to almost nothing.
        let long = vec![b' '; MAX_JSON + 1];
        let long = zstd::bulk::compress(&[&long[..], b"[]"].concat(), 1).expect("it is compressed");
        assert_eq!(CellReader::default().read(&long, true).err(), Some(ReadCellsError::Damaged));
    }

    #[test]
    fn labels_without_end_are_refused() {
        let part = |part: usize| {
            let cell = |n: usize| format!(r#"["execute","f{}","thread-cpu","seconds",1]"#, part * 5_000 + n);
            pack(&cells(&format!("[{}]", (0..5_000).map(cell).collect::<Vec<_>>().join(","))))
        };
        let mut labels = CellReader::default();
        assert!((0..10).all(|n| labels.read(&part(n), true).is_ok()));
        assert!(labels.read(&part(3), true).is_ok(), "these are known");
        assert_eq!(labels.read(&part(10), true).err(), Some(ReadCellsError::TooMany));
    }
}
