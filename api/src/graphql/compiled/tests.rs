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
        "{ ... { nodes { ... on Cluster { id ... { id address } } } } ... on ClusterConnection { totalCount } }",
    ] {
        assert!(is_list_compiled(list), "{list}");
    }
    let with_fragments = "{ viewer { ...V } } fragment V on Viewer { account { clusters { ...L } } }
        fragment L on ClusterConnection { nodes { ...C } } fragment C on Cluster { id totals { ...T } }
        fragment T on ClusterTotals { tasks }";
    assert!(is_compiled(with_fragments));
}

#[test]
fn the_executor_resolves_everything_else() {
    for list in [
        "(orderBy: {}) { nodes { id } }",
        "(filter: { search: $a }) { nodes { id } }",
        "{ totalCount }",
        "{ nodes { __typename } }",
        "{ nodes { id tags { key } } }",
        "{ nodes { id viewerCanStop } }",
        "{ nodes { id @include(if: true) } }",
        "{ nodes { ... on Node { id } } }",
        "{ nodes { id } edges { node { id } } }",
        "{ nodes { id } aggregates { tasks } }",
    ] {
        assert!(!is_list_compiled(list), "{list}");
    }
    let repeat = |field: &str| (0..50).map(|n| format!("a{n}: {field}")).collect::<Vec<_>>().join(" ");
    let (repeated, many) = (repeat("totals { ...F }"), repeat("tasks"));
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
