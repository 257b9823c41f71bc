//! The cost limit: an upper bound of the fields in a result and of the scans of the account's clusters,
//! computed before execution.
//!
//! A field costs 1. The selections of a list count once for each item that the list may have. Fields
//! under `@skip` and `@include` count, whatever their condition. `docs/graphql.md` explains the figures
//! to clients.

use std::collections::HashMap;

use apollo_compiler::{
    ExecutableDocument, Name,
    executable::{Field, Operation, Selection, SelectionSet, Value},
    response::{JsonMap, JsonValue},
    schema::FieldDefinition,
};

use super::{scan, usage_rows};
use crate::graphql::{DEFAULT_PAGE_SIZE, LONG_PAGE_FIELDS, MAX_LONG_PAGE_SIZE, MAX_PAGE_SIZE};

/// The cost of an introspection field, whatever it selects: its result needs no store, and the size of
/// the schema bounds it.
const INTROSPECTION: u64 = 100;

/// The assumed length of a list that is neither paged nor in [`ASSUMED`].
const DEFAULT_LIST_LENGTH: u64 = 10;

/// The cost of an entry of the audit log, in points: nothing shortens the log. A mutation's field adds one.
pub(crate) const AUDIT_ENTRY_COST: u64 = 2_000;

/// The cost of each byte of a mutation's arguments, in points. The entry may contain them.
const POINTS_OF_A_BYTE: u64 = 10;

/// The assumed size of a number, a boolean or an enum value, in bytes.
const BYTES_OF_SCALAR: u64 = 8;

/// Lists without paging, and their usual length. If a list may be much longer, its resolver bounds it by
/// the stored data.
const ASSUMED: [(&str, &str, u64); 34] = [
    ("Account", "usageTable", 100),
    ("Account", "flagRules", 11),
    ("AccountSeries", "points", 100),
    ("AlertBatch", "alerts", 100),
    ("Answer", "arguments", 4),
    ("Answer", "evidence", 5),
    ("Answer", "qualifications", 2),
    ("AnswerQualification", "arguments", 4),
    ("Cluster", "environmentMismatches", 20),
    ("ClusterFacets", "flags", 11),
    ("Cluster", "lostAttempts", 20),
    ("Cluster", "usageHours", 100),
    ("ComputationBatch", "computations", 100),
    ("EndSessionPayload", "sessions", 50),
    ("Environment", "packages", 100),
    ("EnvironmentDifference", "added", 20),
    ("EnvironmentDifference", "changed", 20),
    ("EnvironmentDifference", "removed", 20),
    ("ErrorBatch", "errors", 100),
    ("ErrorGroup", "trend", 30),
    ("ErrorGroupBatch", "errorGroups", 100),
    ("EventBatch", "events", 100),
    ("Evidence", "arguments", 4),
    ("LogBatch", "lines", 100),
    ("Profile", "byWorker", 20),
    ("Profile", "frames", 500),
    ("Profile", "functions", 20),
    ("Profile", "nodes", 1_000),
    ("ProfileComparison", "frames", 500),
    ("ProfileComparison", "nodes", 1_000),
    ("RunReason", "arguments", 4),
    ("Series", "points", 100),
    ("SnapshotBatch", "clusters", 100),
    ("Viewer", "sessions", 50),
];

/// Lists by the type of their items, wherever they stand, and their usual length.
const ASSUMED_OF_TYPE: [(&str, u64); 3] =
    // The account's currency and the estimate for days without a rate; the causes of thread time.
    [("Cost", 2), ("CauseCost", 9), ("CauseUsage", 9)];

/// Fields whose `first` has other bounds than a page: the default and the maximum number of items.
const OTHER_PAGES: [(&str, u64, u64); 6] = [
    ("compare", 100, 5_000),
    ("fineMetrics", 1_000, 5_000),
    ("functionActivity", 10, 20),
    ("functions", 100, 1_000),
    ("search", 5, 20),
    ("spanTags", 100, 1_000),
];

/// The type of lists that allow long pages.
const LONG_PAGES: &str = "ClusterConnection";

/// Lists whose `first` is the number of items of each type, with the number of types.
const TYPES: [(&str, u64); 1] = [("search", 5)];

/// Lists with one item for each item of an argument.
const SIZED_BY_ARGUMENT: [(&str, &str); 3] =
    [("series", "metrics"), ("latestValues", "metrics"), ("workerQuantiles", "metrics")];

/// Lists whose length is set by `first` or `last` of the field above them, in addition to those of
/// connections.
const SIZED_BY_PARENT: [(&str, &str); 7] = [
    ("Comparison", "rows"),
    ("FineMetricTable", "rows"),
    ("FineMetrics", "rows"),
    ("FunctionActivity", "functions"),
    ("TagFacet", "values"),
    ("TextFacet", "values"),
    ("UserFacet", "values"),
];

/// The cost of a selection set: `fixed`, and `sized` for each item of the enclosing page.
#[derive(Clone, Copy, Default)]
struct Cost {
    fixed: Price,
    sized: Price,
}

/// The cost of a part of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Price {
    /// The number of fields in the result.
    pub(super) fields: u64,
    /// The number of possible scans of all clusters of the account.
    pub(super) scans: u64,
}

struct CostVisitor<'request> {
    document: &'request ExecutableDocument,
    variables: &'request JsonMap,
    fragments: HashMap<&'request Name, Cost>,
    variable_bytes: HashMap<&'request Name, u64>,
}

/// Returns the cost of `operation` with these variables.
pub(super) fn price_of(document: &ExecutableDocument, operation: &Operation, variables: &JsonMap) -> Price {
    let mut walk =
        CostVisitor { document, variables, fragments: HashMap::new(), variable_bytes: HashMap::new() };
    walk.selections(&operation.selection_set).of_page(MAX_PAGE_SIZE)
}

impl<'request> CostVisitor<'request> {
    fn selections(&mut self, set: &'request SelectionSet) -> Cost {
        set.selections.iter().fold(Cost::default(), |sum, selection| {
            let part = match selection {
                Selection::Field(field) => self.field(&set.ty, field),
                Selection::InlineFragment(fragment) => self.selections(&fragment.selection_set),
                Selection::FragmentSpread(spread) => self.fragment(&spread.fragment_name),
            };
            Cost { fixed: sum.fixed.and(part.fixed), sized: sum.sized.and(part.sized) }
        })
    }

    fn fragment(&mut self, name: &'request Name) -> Cost {
        if let Some(cost) = self.fragments.get(name) {
            return *cost;
        }
        let Some(fragment) = self.document.fragments.get(name) else { return Cost::default() };
        let cost = self.selections(&fragment.selection_set);
        self.fragments.insert(name, cost);
        cost
    }

    fn field(&mut self, parent: &Name, field: &'request Field) -> Cost {
        if matches!(field.name.as_str(), "__schema" | "__type") {
            return Cost { fixed: Price { fields: INTROSPECTION, scans: 0 }, ..Cost::default() };
        }
        let below = self.selections(&field.selection_set);
        let change = if parent == "Mutation" { self.change(field) } else { 0 };
        let itself = Price { fields: 1 + change, scans: scan::of(parent, field, self.variables) };
        let is_list = field.definition.ty.is_list();
        if let Some(size) = self.page_size(field) {
            // The field is the list itself, or the object that contains it.
            let items = if is_list { below.of_page(size).times(size) } else { below.of_page(size) };
            Cost { fixed: items.and(itself), ..Cost::default() }
        } else if !is_list {
            Cost { fixed: below.fixed.and(itself), sized: below.sized }
        } else if is_sized_above(parent, &field.name) {
            Cost { fixed: itself, sized: below.of_page(1) }
        } else {
            let size = self.length(field).unwrap_or_else(|| assumed(parent, field));
            Cost { fixed: below.of_page(1).times(size).and(itself), ..Cost::default() }
        }
    }

    /// Returns the cost of a change besides that of its answer.
    fn change(&mut self, field: &'request Field) -> u64 {
        let bytes: u64 = field.arguments.iter().map(|argument| self.bytes(&argument.value)).sum();
        bytes * POINTS_OF_A_BYTE + AUDIT_ENTRY_COST
    }

    /// Returns the approximate size of an argument, in bytes. A variable counts each time it is used.
    fn bytes(&mut self, value: &'request Value) -> u64 {
        match value {
            Value::Variable(name) => {
                let variables = self.variables;
                let size = || variables.get(name.as_str()).map_or(0, bytes_of_json);
                *self.variable_bytes.entry(name).or_insert_with(size)
            }
            Value::List(items) => items.iter().map(|item| self.bytes(item)).sum(),
            Value::Object(fields) => fields.iter().map(|(_, value)| self.bytes(value)).sum(),
            Value::String(text) => u64::try_from(text.len()).unwrap_or(u64::MAX),
            _ => BYTES_OF_SCALAR,
        }
    }

    /// Returns the maximum length of the field's page. Returns None if it is not paged. The resolver
    /// refuses a number out of bounds.
    fn page_size(&self, field: &Field) -> Option<u64> {
        let (default, most) = page_bounds(self.document, field)?;
        // Excluded fields do not count for the resolver, and may be all that keeps the page short here.
        let is_long = field.definition.ty.inner_named_type() == LONG_PAGES;
        let most = if is_long { MAX_LONG_PAGE_SIZE } else { most };
        let page_size = ["first", "last"].into_iter().filter_map(|name| self.number(field, name)).max();
        let types = TYPES.iter().find(|(name, _)| field.name == *name).map_or(1, |(_, types)| *types);
        Some(page_size.unwrap_or(default).clamp(1, most) * types)
    }

    /// Returns the length of a list that its arguments determine. Returns None for other lists.
    fn length(&self, field: &Field) -> Option<u64> {
        usage_rows::count(field, self.variables).or_else(|| self.items_of_argument(field))
    }

    /// Returns the length of a list that has an item for each item of an argument. Returns None for
    /// other lists.
    fn items_of_argument(&self, field: &Field) -> Option<u64> {
        let (_, argument) = SIZED_BY_ARGUMENT.iter().find(|(name, _)| field.name == *name)?;
        let argument = field.arguments.iter().find(|given| given.name == *argument)?;
        let length = match &*argument.value {
            Value::List(items) => items.len(),
            Value::Variable(name) => self.variables.get(name.as_str())?.as_array()?.len(),
            // A single value is coerced to a list.
            _ => 1,
        };
        u64::try_from(length).ok()
    }

    fn number(&self, field: &Field, argument: &str) -> Option<u64> {
        let argument = field.arguments.iter().find(|given| given.name == argument)?;
        let number = match &*argument.value {
            Value::Int(number) => number.as_str().parse().ok(),
            Value::Variable(name) => self.variables.get(name.as_str())?.as_i64(),
            _ => None,
        };
        number.map(|number: i64| u64::try_from(number).unwrap_or(0))
    }
}

/// Returns the approximate size of a value, in bytes.
fn bytes_of_json(value: &JsonValue) -> u64 {
    match value {
        JsonValue::Array(items) => items.iter().map(bytes_of_json).sum(),
        JsonValue::Object(fields) => fields.iter().map(|(_, value)| bytes_of_json(value)).sum(),
        JsonValue::String(text) => u64::try_from(text.as_str().len()).unwrap_or(u64::MAX),
        _ => BYTES_OF_SCALAR,
    }
}

/// Returns the default and the maximum length of the field's page. Returns None if it is not paged.
pub(super) fn page_bounds(document: &ExecutableDocument, field: &Field) -> Option<(u64, u64)> {
    let paging = |definition: &FieldDefinition, name: &str| {
        definition.arguments.iter().any(|argument| argument.name == name)
    };
    if !paging(&field.definition, "first") && !paging(&field.definition, "last") {
        return None;
    }
    if field.definition.ty.inner_named_type() == LONG_PAGES && has_few_fields(document, &field.selection_set)
    {
        return Some((DEFAULT_PAGE_SIZE, MAX_LONG_PAGE_SIZE));
    }
    let other = OTHER_PAGES.iter().find(|(name, ..)| field.name == *name);
    Some(other.map_or((DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE), |(_, default, most)| (*default, *most)))
}

/// Returns true if a selection of a list needs only [`LONG_PAGE_FIELDS`] of its items.
fn has_few_fields(document: &ExecutableDocument, list: &SelectionSet) -> bool {
    let of_item = |item: &SelectionSet| {
        all_fields(document, item, &|field| LONG_PAGE_FIELDS.contains(&field.name.as_str()))
    };
    all_fields(document, list, &|field| match field.name.as_str() {
        "nodes" => of_item(&field.selection_set),
        "edges" => all_fields(document, &field.selection_set, &|field| {
            field.name != "node" || of_item(&field.selection_set)
        }),
        _ => true,
    })
}

/// Returns true if all fields of a selection, also those of its fragments, pass a test.
fn all_fields(document: &ExecutableDocument, set: &SelectionSet, passes: &dyn Fn(&Field) -> bool) -> bool {
    set.selections.iter().all(|selection| match selection {
        Selection::Field(field) => passes(field),
        Selection::InlineFragment(fragment) => all_fields(document, &fragment.selection_set, passes),
        Selection::FragmentSpread(spread) => {
            let fragment = document.fragments.get(&spread.fragment_name);
            fragment.is_none_or(|fragment| all_fields(document, &fragment.selection_set, passes))
        }
    })
}

impl Cost {
    fn of_page(self, size: u64) -> Price {
        self.fixed.and(self.sized.times(size))
    }
}

impl Price {
    fn and(self, other: Self) -> Self {
        Self {
            fields: self.fields.saturating_add(other.fields),
            scans: self.scans.saturating_add(other.scans),
        }
    }

    fn times(self, count: u64) -> Self {
        Self { fields: self.fields.saturating_mul(count), scans: self.scans.saturating_mul(count) }
    }
}

fn is_sized_above(parent: &Name, field: &Name) -> bool {
    parent.ends_with("Connection") || SIZED_BY_PARENT.iter().any(|(of, list)| parent == of && field == list)
}

fn assumed(parent: &Name, field: &Field) -> u64 {
    let of_field = ASSUMED.iter().find(|(of, list, _)| parent == of && field.name == *list);
    let item = field.definition.ty.inner_named_type();
    let of_type = || ASSUMED_OF_TYPE.iter().find(|(name, _)| item == name).map(|(_, size)| *size);
    of_field.map(|(.., size)| *size).or_else(of_type).unwrap_or(DEFAULT_LIST_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graphql::Schema;

    /// A renamed list would silently count as a short one.
    #[test]
    fn the_tables_name_fields_of_the_schema() {
        let schema = Schema::validation_schema();
        let field = |parent: &str, name: &str| schema.type_field(parent, name).is_ok();
        for (parent, name, _) in ASSUMED {
            assert!(field(parent, name), "{parent}.{name}");
        }
        for (name, _) in ASSUMED_OF_TYPE {
            assert!(schema.types.contains_key(name), "{name}");
        }
        for (parent, name) in SIZED_BY_PARENT {
            assert!(field(parent, name), "{parent}.{name}");
        }
        for (name, argument) in SIZED_BY_ARGUMENT {
            let found = schema.type_field("Cluster", name).expect(name);
            assert!(found.arguments.iter().any(|known| known.name == argument), "{name}({argument})");
        }
        for name in LONG_PAGE_FIELDS.into_iter().filter(|name| *name != "__typename") {
            assert!(field("Cluster", name) && field(LONG_PAGES, "nodes"), "{name}");
        }
        for (name, _) in TYPES {
            assert!(OTHER_PAGES.iter().any(|(page, ..)| *page == name), "{name}");
        }
        for (name, ..) in OTHER_PAGES {
            assert!(["Account", "Cluster", "Span"].into_iter().any(|parent| field(parent, name)), "{name}");
        }
    }
}
