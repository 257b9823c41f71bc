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

/// The assumed length of a list that is neither paged nor in [`ASSUMED_LENGTHS`].
const DEFAULT_LIST_LENGTH: u64 = 10;

/// The cost of an entry of the audit log, in points: nothing shortens the log. A mutation's field adds one.
pub(crate) const AUDIT_ENTRY_COST: u64 = 2_000;

/// The cost of each byte of a mutation's arguments, in points. The entry may contain them.
const POINTS_PER_BYTE: u64 = 10;

/// The assumed size of a number, a boolean or an enum value, in bytes.
const SCALAR_BYTES: u64 = 8;

/// Lists without paging, and their usual length. If a list may be much longer, its resolver bounds it by
/// the stored data.
const ASSUMED_LENGTHS: [(&str, &str, u64); 34] = [
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
const ASSUMED_LENGTHS_BY_TYPE: [(&str, u64); 3] =
    // The account's currency and the estimate for days without a rate; the causes of thread time.
    [("Cost", 2), ("CauseCost", 9), ("CauseUsage", 9)];

/// Fields whose `first` has other bounds than a page: the default and the maximum number of items.
const SPECIAL_PAGE_BOUNDS: [(&str, u64, u64); 6] = [
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
const ITEM_TYPE_COUNTS: [(&str, u64); 1] = [("search", 5)];

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
    let mut visitor =
        CostVisitor { document, variables, fragments: HashMap::new(), variable_bytes: HashMap::new() };
    visitor.selections(&operation.selection_set).for_page(MAX_PAGE_SIZE)
}

impl<'request> CostVisitor<'request> {
    fn selections(&mut self, set: &'request SelectionSet) -> Cost {
        set.selections.iter().fold(Cost::default(), |sum, selection| {
            let cost = match selection {
                Selection::Field(field) => self.field(&set.ty, field),
                Selection::InlineFragment(fragment) => self.selections(&fragment.selection_set),
                Selection::FragmentSpread(spread) => self.fragment(&spread.fragment_name),
            };
            Cost { fixed: sum.fixed.and(cost.fixed), sized: sum.sized.and(cost.sized) }
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
        let child_cost = self.selections(&field.selection_set);
        let change = if parent == "Mutation" { self.mutation_cost(field) } else { 0 };
        let own_price = Price { fields: 1 + change, scans: scan::count_scans(parent, field, self.variables) };
        let is_list = field.definition.ty.is_list();
        if let Some(size) = self.page_size(field) {
            // The field is the list itself, or the object that contains it.
            let items =
                if is_list { child_cost.for_page(size).times(size) } else { child_cost.for_page(size) };
            Cost { fixed: items.and(own_price), ..Cost::default() }
        } else if !is_list {
            Cost { fixed: child_cost.fixed.and(own_price), sized: child_cost.sized }
        } else if is_sized_by_parent(parent, &field.name) {
            Cost { fixed: own_price, sized: child_cost.for_page(1) }
        } else {
            let size = self.length(field).unwrap_or_else(|| assumed_length(parent, field));
            Cost { fixed: child_cost.for_page(1).times(size).and(own_price), ..Cost::default() }
        }
    }

    /// Returns the cost of a mutation besides that of its response.
    fn mutation_cost(&mut self, field: &'request Field) -> u64 {
        let bytes: u64 = field.arguments.iter().map(|argument| self.bytes(&argument.value)).sum();
        bytes * POINTS_PER_BYTE + AUDIT_ENTRY_COST
    }

    /// Returns the approximate size of an argument, in bytes. A variable counts each time it is used.
    fn bytes(&mut self, value: &'request Value) -> u64 {
        match value {
            Value::Variable(name) => {
                let variables = self.variables;
                let size = || variables.get(name.as_str()).map_or(0, json_bytes);
                *self.variable_bytes.entry(name).or_insert_with(size)
            }
            Value::List(items) => items.iter().map(|item| self.bytes(item)).sum(),
            Value::Object(fields) => fields.iter().map(|(_, value)| self.bytes(value)).sum(),
            Value::String(text) => u64::try_from(text.len()).unwrap_or(u64::MAX),
            _ => SCALAR_BYTES,
        }
    }

    /// Returns the maximum length of the field's page. Returns None if it is not paged. The resolver
    /// refuses a number out of bounds.
    fn page_size(&self, field: &Field) -> Option<u64> {
        let (default, max) = page_bounds(self.document, field)?;
        // Excluded fields do not count for the resolver, and may be all that keeps the page short here.
        let is_long = field.definition.ty.inner_named_type() == LONG_PAGES;
        let max = if is_long { MAX_LONG_PAGE_SIZE } else { max };
        let page_size = ["first", "last"].into_iter().filter_map(|name| self.number(field, name)).max();
        let types =
            ITEM_TYPE_COUNTS.iter().find(|(name, _)| field.name == *name).map_or(1, |(_, types)| *types);
        Some(page_size.unwrap_or(default).clamp(1, max) * types)
    }

    /// Returns the length of a list that its arguments determine. Returns None for other lists.
    fn length(&self, field: &Field) -> Option<u64> {
        usage_rows::count(field, self.variables).or_else(|| self.items_of_argument(field))
    }

    /// Returns the length of a list that has an item for each item of an argument. Returns None for
    /// other lists.
    fn items_of_argument(&self, field: &Field) -> Option<u64> {
        let (_, argument) = SIZED_BY_ARGUMENT.iter().find(|(name, _)| field.name == *name)?;
        let argument = field.arguments.iter().find(|candidate| candidate.name == *argument)?;
        let length = match &*argument.value {
            Value::List(items) => items.len(),
            Value::Variable(name) => self.variables.get(name.as_str())?.as_array()?.len(),
            // A single value is coerced to a list.
            _ => 1,
        };
        u64::try_from(length).ok()
    }

    fn number(&self, field: &Field, argument: &str) -> Option<u64> {
        let argument = field.arguments.iter().find(|candidate| candidate.name == argument)?;
        let number = match &*argument.value {
            Value::Int(number) => number.as_str().parse().ok(),
            Value::Variable(name) => self.variables.get(name.as_str())?.as_i64(),
            _ => None,
        };
        number.map(|number: i64| u64::try_from(number).unwrap_or(0))
    }
}

/// Returns the approximate size of a value, in bytes.
fn json_bytes(value: &JsonValue) -> u64 {
    match value {
        JsonValue::Array(items) => items.iter().map(json_bytes).sum(),
        JsonValue::Object(fields) => fields.iter().map(|(_, value)| json_bytes(value)).sum(),
        JsonValue::String(text) => u64::try_from(text.as_str().len()).unwrap_or(u64::MAX),
        _ => SCALAR_BYTES,
    }
}

/// Returns the default and the maximum length of the field's page. Returns None if it is not paged.
pub(super) fn page_bounds(document: &ExecutableDocument, field: &Field) -> Option<(u64, u64)> {
    let has_argument = |definition: &FieldDefinition, name: &str| {
        definition.arguments.iter().any(|argument| argument.name == name)
    };
    if !has_argument(&field.definition, "first") && !has_argument(&field.definition, "last") {
        return None;
    }
    if field.definition.ty.inner_named_type() == LONG_PAGES && has_few_fields(document, &field.selection_set)
    {
        return Some((DEFAULT_PAGE_SIZE, MAX_LONG_PAGE_SIZE));
    }
    let special_bounds = SPECIAL_PAGE_BOUNDS.iter().find(|(name, ..)| field.name == *name);
    Some(special_bounds.map_or((DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE), |(_, default, max)| (*default, *max)))
}

/// Returns true if a selection of a list needs only [`LONG_PAGE_FIELDS`] of its items.
fn has_few_fields(document: &ExecutableDocument, list: &SelectionSet) -> bool {
    let item_has_few_fields = |item: &SelectionSet| {
        all_fields(document, item, &|field| LONG_PAGE_FIELDS.contains(&field.name.as_str()))
    };
    all_fields(document, list, &|field| match field.name.as_str() {
        "nodes" => item_has_few_fields(&field.selection_set),
        "edges" => all_fields(document, &field.selection_set, &|field| {
            field.name != "node" || item_has_few_fields(&field.selection_set)
        }),
        _ => true,
    })
}

/// Returns true if all fields of a selection, also those of its fragments, pass a test.
fn all_fields(document: &ExecutableDocument, set: &SelectionSet, predicate: &dyn Fn(&Field) -> bool) -> bool {
    set.selections.iter().all(|selection| match selection {
        Selection::Field(field) => predicate(field),
        Selection::InlineFragment(fragment) => all_fields(document, &fragment.selection_set, predicate),
        Selection::FragmentSpread(spread) => {
            let fragment = document.fragments.get(&spread.fragment_name);
            fragment.is_none_or(|fragment| all_fields(document, &fragment.selection_set, predicate))
        }
    })
}

impl Cost {
    fn for_page(self, size: u64) -> Price {
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

fn is_sized_by_parent(parent: &Name, field: &Name) -> bool {
    parent.ends_with("Connection")
        || SIZED_BY_PARENT.iter().any(|(owner, list)| parent == owner && field == list)
}

fn assumed_length(parent: &Name, field: &Field) -> u64 {
    let field_length = ASSUMED_LENGTHS.iter().find(|(owner, list, _)| parent == owner && field.name == *list);
    let item = field.definition.ty.inner_named_type();
    let type_length = || ASSUMED_LENGTHS_BY_TYPE.iter().find(|(name, _)| item == name).map(|(_, size)| *size);
    field_length.map(|(.., size)| *size).or_else(type_length).unwrap_or(DEFAULT_LIST_LENGTH)
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
        for (parent, name, _) in ASSUMED_LENGTHS {
            assert!(field(parent, name), "{parent}.{name}");
        }
        for (name, _) in ASSUMED_LENGTHS_BY_TYPE {
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
        for (name, _) in ITEM_TYPE_COUNTS {
            assert!(SPECIAL_PAGE_BOUNDS.iter().any(|(page, ..)| *page == name), "{name}");
        }
        for (name, ..) in SPECIAL_PAGE_BOUNDS {
            assert!(["Account", "Cluster", "Span"].into_iter().any(|parent| field(parent, name)), "{name}");
        }
    }
}
