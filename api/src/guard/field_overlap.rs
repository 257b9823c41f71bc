//! Field merging: detects whether an object field is selected more than once under one response key in
//! one selection set. The result of an operation without such fields can be written while it is
//! resolved.

use std::collections::{HashMap, HashSet};

use apollo_compiler::{
    ExecutableDocument, Name,
    executable::{Operation, Selection, SelectionSet},
};

/// The limit of compared response keys, per selection of the document. A document beyond it is treated as
/// merging.
const MAX_COMPARISONS: usize = 20;

/// Returns true if the result of the operation may need merging.
pub(super) fn has_overlapping_fields(document: &ExecutableDocument, operation: &Operation) -> bool {
    let mut visitor =
        OverlapVisitor { document, keys_by_fragment: HashMap::new(), selections: 0, comparisons: 0 };
    let fragments = document.fragments.values().map(|fragment| &fragment.selection_set);
    std::iter::once(&operation.selection_set).chain(fragments).any(|set| visitor.has_overlap(set))
}

struct OverlapVisitor<'document> {
    document: &'document ExecutableDocument,
    /// Of each fragment, the response keys of the object fields that it adds where it is spread.
    keys_by_fragment: HashMap<&'document Name, Vec<&'document Name>>,
    selections: usize,
    comparisons: usize,
}

impl<'document> OverlapVisitor<'document> {
    /// Returns true if the set, or a set within it, selects an object field twice under one key.
    fn has_overlap(&mut self, set: &'document SelectionSet) -> bool {
        let mut unique_keys = HashSet::new();
        let mut keys = Vec::new();
        self.collect_response_keys(set, &mut keys);
        self.comparisons += keys.len();
        self.selections += set.selections.len();
        keys.iter().any(|name| !unique_keys.insert(*name)) || self.has_nested_overlap(set)
    }

    fn has_nested_overlap(&mut self, set: &'document SelectionSet) -> bool {
        self.comparisons > MAX_COMPARISONS * (self.selections + 100)
            || set.selections.iter().any(|selection| match selection {
                Selection::Field(field) => self.has_overlap(&field.selection_set),
                Selection::InlineFragment(fragment) => self.has_nested_overlap(&fragment.selection_set),
                // Each fragment is checked by itself.
                Selection::FragmentSpread(_) => false,
            })
    }

    fn collect_response_keys(&mut self, set: &'document SelectionSet, keys: &mut Vec<&'document Name>) {
        for selection in &set.selections {
            match selection {
                Selection::Field(field) if field.selection_set.selections.is_empty() => {}
                Selection::Field(field) => keys.push(field.response_key()),
                Selection::InlineFragment(fragment) => {
                    self.collect_response_keys(&fragment.selection_set, keys);
                }
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment_keys) = self.keys_by_fragment.get(&spread.fragment_name) {
                        keys.extend(fragment_keys);
                        continue;
                    }
                    let Some(fragment) = self.document.fragments.get(&spread.fragment_name) else { continue };
                    let mut fragment_keys = Vec::new();
                    self.collect_response_keys(&fragment.selection_set, &mut fragment_keys);
                    keys.extend(&fragment_keys);
                    self.keys_by_fragment.insert(&spread.fragment_name, fragment_keys);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use apollo_compiler::Schema;

    use super::*;

    fn merges_in(document: &str) -> bool {
        let schema = "type Query { a: Thing b(of: Int): Thing } type Thing { x: Int thing: Thing }";
        let schema = Schema::parse_and_validate(schema, "schema").expect("it is a schema");
        let document = ExecutableDocument::parse_and_validate(&schema, document, "document");
        let document = document.expect("it is valid");
        let operation = document.operations.get(None).expect("it is the only one");
        has_overlapping_fields(&document, operation)
    }

    #[test]
    fn what_has_no_fields_is_never_merged() {
        assert!(!merges_in("{ a { x x thing { x } } b { x thing { x } } }"));
        assert!(!merges_in("{ a { x ... { x } ...F } } fragment F on Thing { x }"));
    }

    #[test]
    fn what_is_selected_twice_in_one_place_is() {
        assert!(merges_in("{ a { x } a { x } }"));
        assert!(merges_in("{ a { thing { x } ... { thing { x } } } }"));
        assert!(merges_in("{ a { thing { x } ...F } } fragment F on Thing { thing { x } }"));
        assert!(merges_in(
            "{ a { ...F ...G } } fragment F on Thing { ...G } fragment G on Thing { thing { x } }"
        ));
        assert!(merges_in(
            "{ a { ...F } } fragment F on Thing { thing { thing { x } ... { thing { x } } } }"
        ));
        assert!(merges_in("{ one: a { x } ... on Query { one: a { x } } }"));
    }

    #[test]
    fn other_names_and_places_are_others() {
        assert!(!merges_in("{ a { thing { thing { x } } } other: a { thing { x } } b { thing { x } } }"));
        assert!(!merges_in("{ a { ...F } b { ...F } } fragment F on Thing { thing { x } }"));
    }

    #[test]
    fn fragments_that_are_spread_everywhere_are_not_followed_for_ever() {
        let keys = (0..300).map(|i| format!("n{i}: thing {{ x }} ")).collect::<Vec<_>>().concat();
        let spreads = (0..300).map(|i| format!("s{i}: thing {{ ...F }} ")).collect::<Vec<_>>().concat();
        assert!(merges_in(&format!("{{ a {{ {spreads} }} }} fragment F on Thing {{ {keys} }}")));
    }
}
