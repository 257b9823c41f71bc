use async_graphql::parser::parse_query;

use super::*;

fn is_compiled(document: &str) -> bool {
    CompiledRead::compile(&parse_query(document).expect("the document parses")).is_some()
}

fn is_list_compiled(list: &str) -> bool {
    is_compiled(&format!("query($a: Int) {{ who: viewer {{ account {{ list: clusters{list} }} }} }}"))
}

#[test]
fn lists_of_clusters_in_the_default_order_are_compiled() {
    for list in [
        "{ nodes { id } }",
        "(first: $a, after: null) { nodes { id number state called: name __typename } }",
        "(last: 3, before: \"x\") { edges { cursor node { totals { tasks peakMemory } } } totalCount }",
        "(filter: null) { pageInfo { hasNextPage hasPreviousPage startCursor endCursor } nodes { endedAt } }",
        "{ nodes { __typename } }",
        "{ ... { nodes { ... on Cluster { id ... { id address } } } } ... on ClusterConnection { totalCount } }",
    ] {
        assert!(is_list_compiled(list), "{list}");
    }
    let with_fragments = "{ viewer { ...V } } fragment V on Viewer { account { clusters { ...L } } }
        fragment L on ClusterConnection { nodes { ...C } } fragment C on Cluster { id totals { ...T } }
        fragment T on ClusterTotals { tasks }";
    assert!(is_compiled(with_fragments));
}

/// Selects a field several times, under different response keys.
fn repeat(count: usize, field: &str) -> String {
    (0..count).map(|n| format!("a{n}: {field}")).collect::<Vec<_>>().join(" ")
}

fn is_cluster_compiled(selection: &str) -> bool {
    is_compiled(&format!(
        "query($id: ID!, $a: Int, $f: TaskGroupFilter) {{ it: cluster(id: $id) {selection} }}"
    ))
}

#[test]
fn clusters_with_their_lists_are_compiled() {
    for selection in [
        "{ __typename }",
        "{ id name totals { tasks } }",
        "{ computations { nodes { daskId wallSeconds } } }",
        "{ a: computations(first: $a, during: null) { nodes { taskGroups(last: 2, filter: $f) { edges { cursor
           node { types states { count } durations { action its: seconds } } } } errors { nodes { type } } } } }",
        "{ taskGroups { nodes { name } pageInfo { hasNextPage } } errors { nodes { key } } more: errors { nodes { at } } }",
        "{ ... on Cluster { ... { errors { nodes { ... on ErrorOccurrence { retries } } } } } }",
    ] {
        assert!(is_cluster_compiled(selection), "{selection}");
    }
    assert!(is_compiled("{ cluster(id: \"7\") { id } }"));
    assert!(is_compiled("{ cluster(id: 7) { id } }"));
}

#[test]
fn the_executor_resolves_other_fields_of_clusters() {
    for selection in [
        "{ id @skip(if: false) }",
        "{ user { name } }",
        "{ computations { totalCount nodes { id } } }",
        "{ computations { nodes { totals { tasks } } } }",
        "{ computations(during: { from: \"2026-11-20T00:00:00Z\" }) { nodes { id } } }",
        "{ taskGroups(filter: {}) { nodes { id } } }",
        "{ taskGroups { nodes { dependencies { id } } } }",
        "{ taskGroups { nodes { states { count @include(if: true) } } } }",
        "{ errors { nodes { message } } }",
        "{ workers { nodes { id } } }",
        "{ ... on Node { id } }",
    ] {
        assert!(!is_cluster_compiled(selection), "{selection}");
    }
    assert!(!is_compiled("{ a: cluster(id: 1) { id } b: cluster(id: 2) { id } }"));
}

#[test]
fn the_templates_of_a_document_are_bounded_together() {
    let document = |lists: usize, counts: usize, key: usize| {
        let lists = repeat(lists, "taskGroups { nodes { ...G } }");
        let counts = repeat(counts, "states { ...S }");
        let key = "k".repeat(key);
        format!(
            "{{ cluster(id: 1) {{ {lists} }} }} fragment G on TaskGroup {{ {counts} }}
             fragment S on StateCount {{ {key}: count }}"
        )
    };
    assert!(is_compiled(&document(4, 10, 100)));
    assert!(!is_compiled(&document(4, 10, 2_000)));
    assert!(!is_compiled(&document(4, 150, 100)));
    assert!(!is_compiled(&document(16, 1, 1)));
}

#[test]
fn the_executor_resolves_everything_else() {
    for list in [
        "(orderBy: {}) { nodes { id } }",
        "(filter: { search: $a }) { nodes { id } }",
        "{ totalCount }",
        "{ nodes { id tags { key } } }",
        "{ nodes { id viewerCanStop } }",
        "{ nodes { id @include(if: true) } }",
        "{ nodes { ... on Node { id } } }",
        "{ nodes { id } edges { node { id } } }",
        "{ nodes { id } aggregates { tasks } }",
    ] {
        assert!(!is_list_compiled(list), "{list}");
    }
    let (repeated, many) = (repeat(50, "totals { ...F }"), repeat(50, "tasks"));
    let too_large = format!(
        "{{ viewer {{ account {{ clusters {{ nodes {{ {repeated} }} }} }} }} }}
         fragment F on ClusterTotals {{ {many} }}"
    );
    assert!(is_compiled(&too_large.replace(&many, "tasks")));
    assert!(!is_compiled(&too_large));
    for document in [
        "mutation { viewer { account { clusters { nodes { id } } } } }",
        "subscription { viewer { account { clusters { nodes { id } } } } }",
        "{ viewer { account { clusters { nodes { id } } } } rateLimit { limit } }",
        "{ viewer { account { name clusters { nodes { id } } } } }",
        "{ account(slug: \"a\") { clusters { nodes { id } } } }",
    ] {
        assert!(!is_compiled(document), "{document}");
    }
}
