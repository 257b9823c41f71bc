//! What an operation could cost at the most, in fields of its answer, before any of them is looked for.
//!
//! A field costs 1, and what is selected in a list counts once for every item the list may have. Fields under
//! `@skip` and `@include` count, whatever their condition. `docs/graphql.md` explains the figures to clients.

use std::collections::HashMap;

use apollo_compiler::{
    ExecutableDocument, Name,
    executable::{Field, Operation, Selection, SelectionSet, Value},
    response::JsonMap,
    schema::FieldDefinition,
};

use crate::graphql::{DEFAULT_PAGE, MAX_PAGE};

/// What an answer about the schema costs, however much of it is asked: it is made without the store, and the size
/// of the schema bounds it.
const INTROSPECTION: u64 = 100;

/// Items of a list that neither is paged nor stands in [`ASSUMED`].
const FEW: u64 = 10;

/// Lists that are not paged, and how many items they usually have. Where one may have many more, the resolver
/// bounds them by what is there.
const ASSUMED: [(&str, &str, u64); 21] = [
    ("Account", "usageTable", 100),
    ("Account", "flagRules", 11),
    ("AccountSeries", "points", 100),
    ("Answer", "evidence", 5),
    ("Cluster", "environmentMismatches", 20),
    ("Cluster", "usageHours", 100),
    ("ComputationBatch", "computations", 100),
    ("Environment", "packages", 100),
    ("EnvironmentDifference", "added", 20),
    ("EnvironmentDifference", "changed", 20),
    ("EnvironmentDifference", "removed", 20),
    ("ErrorBatch", "errors", 100),
    ("ErrorGroup", "trend", 30),
    ("EventBatch", "events", 100),
    ("LogBatch", "lines", 100),
    ("Profile", "frames", 500),
    ("Profile", "nodes", 1_000),
    ("ProfileComparison", "frames", 500),
    ("ProfileComparison", "nodes", 1_000),
    ("Series", "points", 100),
    ("SnapshotBatch", "clusters", 100),
];

/// Fields whose `first` has other bounds than a page: how many items there are without it, and at the most.
const OTHER_PAGES: [(&str, u64, u64); 4] = [
    ("compare", 100, 5_000),
    ("fineMetrics", 1_000, 5_000),
    ("functions", 100, 1_000),
    ("spanTags", 100, 1_000),
];

/// Lists that have an item for each item of an argument.
const AS_LONG_AS: [(&str, &str); 1] = [("series", "metrics")];

/// Lists that are as long as `first` or `last` of the field above them say, besides those of connections.
const SIZED_ABOVE: [(&str, &str); 3] =
    [("Comparison", "rows"), ("FineMetricTable", "rows"), ("FineMetrics", "rows")];

/// What a list of selections costs: `fixed`, and `sized` for each item of the page it lies in.
#[derive(Clone, Copy, Default)]
struct Cost {
    fixed: u64,
    sized: u64,
}

struct Walk<'request> {
    document: &'request ExecutableDocument,
    variables: &'request JsonMap,
    fragments: HashMap<&'request Name, Cost>,
}

/// What `operation` costs with these variables.
pub(super) fn of(document: &ExecutableDocument, operation: &Operation, variables: &JsonMap) -> u64 {
    let mut walk = Walk { document, variables, fragments: HashMap::new() };
    walk.selections(&operation.selection_set).of_page(MAX_PAGE)
}

impl<'request> Walk<'request> {
    fn selections(&mut self, set: &'request SelectionSet) -> Cost {
        set.selections.iter().fold(Cost::default(), |sum, selection| {
            let part = match selection {
                Selection::Field(field) => self.field(&set.ty, field),
                Selection::InlineFragment(fragment) => self.selections(&fragment.selection_set),
                Selection::FragmentSpread(spread) => self.fragment(&spread.fragment_name),
            };
            Cost { fixed: sum.fixed.saturating_add(part.fixed), sized: sum.sized.saturating_add(part.sized) }
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
            return Cost { fixed: INTROSPECTION, sized: 0 };
        }
        let below = self.selections(&field.selection_set);
        let is_list = field.definition.ty.is_list();
        if let Some(size) = self.page_size(field) {
            // The field is the list itself, or what holds it.
            let items = if is_list { size.saturating_mul(below.of_page(size)) } else { below.of_page(size) };
            Cost { fixed: items.saturating_add(1), sized: 0 }
        } else if !is_list {
            Cost { fixed: below.fixed.saturating_add(1), sized: below.sized }
        } else if is_sized_above(parent, &field.name) {
            Cost { fixed: 1, sized: below.of_page(1) }
        } else {
            let size = self.length(field).unwrap_or_else(|| assumed(parent, &field.name));
            let items = size.saturating_mul(below.of_page(1));
            Cost { fixed: items.saturating_add(1), sized: 0 }
        }
    }

    /// How many items the field's page has at the most; none if it is not paged. A number that is out of bounds is
    /// for the resolver to refuse.
    fn page_size(&self, field: &Field) -> Option<u64> {
        let paging = |definition: &FieldDefinition, name: &str| {
            definition.arguments.iter().any(|argument| argument.name == name)
        };
        if !paging(&field.definition, "first") && !paging(&field.definition, "last") {
            return None;
        }
        let other = OTHER_PAGES.iter().find(|(name, ..)| field.name == *name);
        let (default, most) = other.map_or((DEFAULT_PAGE, MAX_PAGE), |(_, default, most)| (*default, *most));
        let asked = ["first", "last"].into_iter().filter_map(|name| self.number(field, name)).max();
        Some(asked.unwrap_or(default).clamp(1, most))
    }

    /// How many items the list has for those of its argument, if it is such a list.
    fn length(&self, field: &Field) -> Option<u64> {
        let (_, argument) = AS_LONG_AS.iter().find(|(name, _)| field.name == *name)?;
        let argument = field.arguments.iter().find(|given| given.name == *argument)?;
        let length = match &*argument.value {
            Value::List(items) => items.len(),
            Value::Variable(name) => self.variables.get(name.as_str())?.as_array()?.len(),
            // One value stands for a list of it.
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

impl Cost {
    fn of_page(self, size: u64) -> u64 {
        self.fixed.saturating_add(self.sized.saturating_mul(size))
    }
}

fn is_sized_above(parent: &Name, field: &Name) -> bool {
    parent.ends_with("Connection") || SIZED_ABOVE.iter().any(|(of, list)| parent == of && field == list)
}

fn assumed(parent: &Name, field: &Name) -> u64 {
    let found = ASSUMED.iter().find(|(of, list, _)| parent == of && field == list);
    found.map_or(FEW, |(.., size)| *size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graphql::Schema;

    /// A list that was renamed would silently be taken for a short one.
    #[test]
    fn the_tables_name_fields_of_the_schema() {
        let schema = Schema::checked();
        let field = |parent: &str, name: &str| schema.type_field(parent, name).is_ok();
        for (parent, name, _) in ASSUMED {
            assert!(field(parent, name), "{parent}.{name}");
        }
        for (parent, name) in SIZED_ABOVE {
            assert!(field(parent, name), "{parent}.{name}");
        }
        for (name, argument) in AS_LONG_AS {
            let found = schema.type_field("Cluster", name).expect(name);
            assert!(found.arguments.iter().any(|known| known.name == argument), "{name}({argument})");
        }
        for (name, ..) in OTHER_PAGES {
            assert!(["Account", "Cluster", "Span"].into_iter().any(|parent| field(parent, name)), "{name}");
        }
    }
}
