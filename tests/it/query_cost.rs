//! The cost of queries that depends on their arguments and on the account's clusters.

use harness::{ReportBuilder, TestApp};
use serde_json::json;

use crate::graphql_guard::assert_refused;

#[tokio::test]
async fn a_usage_table_by_time_costs_as_many_rows_as_its_period_has() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let table = |arguments: &str| {
        format!("{{ viewer {{ account {{ usageTable({arguments}) {{ day clusters }} }} }} }}")
    };
    let of_days = |from: &str, to: &str, by: &str| table(&format!(r#"from: "{from}", to: "{to}"{by}"#));
    let cases = [
        (of_days("2026-11-01", "2026-12-01", ""), 30),
        (of_days("2026-11-01", "2026-11-02", ", by: [DAY]"), 1),
        (of_days("2026-11-01", "2026-11-02", ", by: DAY"), 1),
        (of_days("2026-11-01", "2026-11-03", ", by: HOUR"), 48),
        // 1 November 2026 is the last day of a week, and 9 November the first day of another one.
        (of_days("2026-11-01", "2026-11-10", ", by: [WEEK]"), 3),
        (of_days("2026-01-31", "2026-03-02", ", by: [MONTH]"), 3),
        (of_days("2026-11-01", "2026-11-02", ", by: [USER]"), 100),
        (of_days("2026-11-01", "2026-11-02", ", by: [DAY, USER]"), 100),
        (of_days("2026-11-01", "2026-11-02", ", by: []"), 100),
    ];
    for (query, rows) in cases {
        let answer = ada.ask(&query, json!({})).await;
        assert_eq!(answer["extensions"]["cost"]["requested"], 3 + 2 * rows, "{query}: {answer}");
    }
    let query = "query($from: Date!, $by: [UsageDimension!]!, $unit: UsageDimension!) { viewer { account {
        a: usageTable(from: $from, to: \"2026-12-01\", by: $by) { day }
        b: usageTable(from: $from, to: \"2026-12-01\", by: [$unit]) { day } } } }";
    let variables = json!({ "from": "2026-11-20", "by": "DAY", "unit": "MONTH" });
    // Eleven days, and two months at most.
    assert_eq!(ada.ask(query, variables).await["extensions"]["cost"]["requested"], 4 + 11 + 2);
    // Amounts have few currencies, and nine causes.
    let usage = "{ viewer { account { usage { costs { amount causes { cause } } causes { seconds } } } } }";
    assert_eq!(ada.ask(usage, json!({})).await["extensions"]["cost"]["requested"], 4 + 2 * 11 + 10);
    app.stop().await;
}

#[tokio::test]
async fn reading_all_clusters_costs_by_how_many_there_are() {
    let app = TestApp::start_with(|settings| settings.max_query_cost = 1_000).await;
    let ada = app.account("ada").await;
    for number in 0..40 {
        ada.reported(&ReportBuilder::new(&format!("Scheduler-{number}"), 1).build()).await;
    }
    let list = |arguments: &str, more: &str| {
        format!("{{ viewer {{ account {{ clusters(first: 4{arguments}) {{ {more} nodes {{ id }} }} }} }} }}")
    };
    // 8 clusters cost one point, so reading all of them costs 5.
    let page = 4 + 4;
    let cases = [
        (list("", ""), page),
        (list(", orderBy: { field: ENDED_AT }", ""), page),
        (list(", orderBy: { field: COST }", ""), page + 5),
        (list(", orderBy: { field: TASKS, direction: ASC }", ""), page + 5),
        (list(", filter: { startedIn: { from: \"2026-11-01T00:00:00Z\" }, search: null }", ""), page),
        (list(", filter: { search: \"etl\" }", ""), page + 5),
        (list(", filter: { hasErrors: true }, orderBy: { field: COST }", ""), page + 5),
        (list("", "totalCount"), page + 1 + 5),
        (list("", "totalCount aggregates { clusters tasks }"), page + 1 + 3 + 2 * 5),
        // Each facet reads all clusters. A list without pages counts as 10 items, that of flags as 11.
        (list("", "facets { states { state count } flags { kind } }"), page + 1 + 1 + 20 + 1 + 11 + 2 * 5),
        (list("", "facets { users(first: 3) { values { count } valueCount } }"), page + 2 + 1 + 3 + 1 + 5),
        (list("", "facets { tags { values { count tag { key } } } }"), page + 2 + 1 + 20 * 3 + 5),
        (list("", "facets { packageVersions(first: 100) { valueCount } }"), page + 3 + 5),
        // Two of each of five types.
        ("{ viewer { account { search(text: \"x\", first: 2) { matched } } } }".to_owned(), 2 + 1 + 10 + 5),
    ];
    for (query, cost) in cases {
        let answer = ada.ask(&query, json!({})).await;
        assert_eq!(answer["extensions"]["cost"]["requested"], cost, "{query}: {answer}");
    }
    let variable = "query($order: ClusterOrder!, $search: String) { viewer { account {
        clusters(first: 4, orderBy: $order, filter: { search: $search }) { nodes { id } } } } }";
    for (variables, cost) in [
        (json!({ "order": { "field": "STARTED_AT" } }), page),
        (json!({ "order": { "field": "ERRORS" } }), page + 5),
        (json!({ "order": { "field": "STARTED_AT" }, "search": "etl" }), page + 5),
    ] {
        let answer = ada.ask(variable, variables).await;
        assert_eq!(answer["extensions"]["cost"]["requested"], cost, "{answer}");
    }
    // Lists with few fields cost much if each of them reads all clusters.
    let aliases = |count: usize| {
        let one = |number| {
            format!("c{number}: clusters(first: 1, orderBy: {{ field: COST }}) {{ nodes {{ id }} }}")
        };
        format!("{{ viewer {{ account {{ {} }} }} }}", (0..count).map(one).collect::<String>())
    };
    assert_eq!(ada.ask(&aliases(124), json!({})).await["extensions"]["cost"]["requested"], 2 + 124 * 8);
    let more = json!({ "query": aliases(125) });
    assert_refused(&app, &ada, "125 scans", &more, "COST_LIMIT_EXCEEDED").await;
    app.stop().await;
}

#[tokio::test]
async fn a_change_costs_more_and_so_does_each_byte_of_its_arguments() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let cost = async |query: &str, variables| {
        let answer = ada.ask(query, variables).await;
        answer["extensions"]["cost"]["requested"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    };
    let fields = "{ memberships { slug } }";
    // The change, its answer of an object with a list of ten, and three bytes.
    let literal = format!("mutation {{ setDefaultAccount(slug: \"ada\") {fields} }}");
    assert_eq!(cost(&literal, json!({})).await, 2_000 + 12 + 30);
    let variable = format!("mutation($slug: String!) {{ setDefaultAccount(slug: $slug) {fields} }}");
    assert_eq!(cost(&variable, json!({ "slug": "ada" })).await, 2_000 + 12 + 30);
    assert_eq!(cost(&variable, json!({ "slug": "a".repeat(60) })).await, 2_000 + 12 + 600);
    let tags = "mutation($tags: [TagInput!]!) { setClusterTags(cluster: \"1\", tags: $tags) { userErrors { code } } }";
    let tag = json!({ "key": "team", "value": "v".repeat(96) });
    let one = cost(tags, json!({ "tags": [tag] })).await;
    assert_eq!(cost(tags, json!({ "tags": [tag, tag, tag] })).await - one, 2 * 1_000);
    app.stop().await;
}
