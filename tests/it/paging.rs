//! Lists: every list, page, order and invalid argument.

mod arrival;

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use harness::{Member, ReportBuilder, TestApp, computation, error, task_group, usage, uuid};
use proptest::{
    collection::vec,
    prelude::any,
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use serde_json::{Value, json};

use self::arrival::{PARENT, arrive};
use crate::sdl::{Sdl, innermost, path};

/// Reports a cluster that shares some values with others and differs in others.
async fn cluster(app: &TestApp, member: &Member, number: i32) {
    app.set_clock(&format!("2026-11-20T12:0{}:00Z", number * 7 % 10));
    let started_at = 1_795_172_400.0 + f64::from(number / 3);
    let mut report = ReportBuilder::new(&format!("Scheduler-{number}"), 1)
        .with("/cluster/started_at", started_at)
        .with("/cluster/name", ["", "Etl", "etl", "\u{e4}"][usize::try_from(number % 4).unwrap()])
        .with("/sent_at", started_at + f64::from(number % 5))
        .with("/cluster/totals/thread_seconds", 0.1 * f64::from(number * 5 % 7))
        .with("/cluster/totals/compute_seconds", 1e-3 / f64::from(1 + number % 4))
        .with("/usage", vec![usage(1, i64::from(1 + number % 3)), usage(23, 1)])
        .with("/cluster/totals/errors", number % 2)
        .with("/cluster/totals/tasks", number * 11 % 6);
    if number % 4 != 0 {
        report =
            report.with("/final", true).with("/cluster/closed_at", 1_795_172_500.25 + f64::from(number % 6));
    }
    member.reported(&report.build()).await;
}

async fn clusters(app: &TestApp, member: &Member, numbers: std::ops::Range<i32>) {
    for number in numbers {
        cluster(app, member, number).await;
    }
}

const FIELDS: [&str; 11] = [
    "STARTED_AT",
    "ENDED_AT",
    "DURATION",
    "THREAD_SECONDS",
    "COMPUTE_SECONDS",
    "ERRORS",
    "TASKS",
    "LAST_SEEN_AT",
    "COST",
    "NAME",
    "UTILIZATION",
];
const CLUSTERS: &str = "query($first: Int, $after: String, $last: Int, $before: String,
    $field: ClusterOrderField = STARTED_AT, $direction: OrderDirection = DESC) {
    viewer { account { list: clusters(first: $first, after: $after, last: $last, before: $before,
        orderBy: { field: $field, direction: $direction }) {
        totalCount nodes { id: schedulerId } edges { cursor }
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } } } }";

fn list(answer: &Value) -> &Value {
    &answer["viewer"]["account"]["list"]
}

fn ids(list: &Value) -> Vec<String> {
    list["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap().to_owned()).collect()
}

/// Pages through the list in one direction. `meanwhile` runs after each of the first pages.
async fn walk(
    member: &Member,
    order: &Value,
    size: i32,
    forward: bool,
    meanwhile: &mut impl AsyncFnMut(),
) -> Vec<String> {
    let (mut found, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    let (count, position, more, other, next) = if forward {
        ("first", "after", "hasNextPage", "hasPreviousPage", "endCursor")
    } else {
        ("last", "before", "hasPreviousPage", "hasNextPage", "startCursor")
    };
    loop {
        let mut variables = order.clone();
        variables[count] = json!(size);
        variables[position] = cursor.clone();
        let page = list(&member.query(CLUSTERS, variables).await).clone();
        assert_eq!(page["pageInfo"][other], !cursor.is_null());
        assert_eq!(page["edges"].as_array().unwrap().len(), page["nodes"].as_array().unwrap().len());
        if forward {
            found.extend(ids(&page));
        } else {
            found.splice(0..0, ids(&page));
        }
        if page["pageInfo"][more] == false {
            return found;
        }
        cursor = page["pageInfo"][next].clone();
        pages += 1;
        if pages <= 4 {
            meanwhile().await;
        }
    }
}

#[tokio::test]
async fn walking_forward_and_backward_visits_every_row_once_in_every_order() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    clusters(&app, &ada, 0..23).await;
    for field in FIELDS {
        for direction in ["ASC", "DESC"] {
            let order = json!({ "field": field, "direction": direction });
            let mut whole = order.clone();
            whole["first"] = json!(100);
            let all = list(&ada.query(CLUSTERS, whole).await).clone();
            assert_eq!(all["totalCount"], 23);
            let all = ids(&all);
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 23, "{order}");
            for size in [1, 2, 7, 22, 23, 24] {
                for forward in [true, false] {
                    let found = walk(&ada, &order, size, forward, &mut async || ()).await;
                    assert_eq!(found, all, "{order} by {size}, forward: {forward}");
                }
            }
        }
    }
    app.stop().await;
}

/// Any order, page size and direction, and rows that arrive after any of the first pages.
#[tokio::test]
async fn rows_that_arrive_meanwhile_neither_hide_nor_repeat_others() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    clusters(&app, &ada, 0..11).await;
    let mut number = 11;
    let walks = (any::<bool>(), 1..=12_i32, any::<bool>(), vec(any::<bool>(), 4));
    let mut runner = TestRunner::deterministic();
    for field in FIELDS {
        for _ in 0..6 {
            let (descending, size, forward, arrivals) = walks.new_tree(&mut runner).unwrap().current();
            let order = json!({ "field": field, "direction": if descending { "DESC" } else { "ASC" } });
            let case = format!("{order} by {size}, forward: {forward}, arrivals: {arrivals:?}");
            let before = walk(&ada, &order, 100, true, &mut async || ()).await;
            let mut arrivals = arrivals.into_iter();
            let found = walk(&ada, &order, size, forward, &mut async || {
                if arrivals.next() == Some(true) {
                    cluster(&app, &ada, number).await;
                    number += 1;
                }
            })
            .await;
            let there_before: Vec<_> = found.iter().filter(|id| before.contains(id)).collect();
            assert_eq!(there_before, before.iter().collect::<Vec<_>>(), "{case}");
            assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "{case}");
        }
    }
    assert!(number > 11 + 60, "only {} clusters arrived", number - 11);
    app.stop().await;
}

#[tokio::test]
async fn a_cursor_belongs_to_one_order() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    clusters(&app, &ada, 0..2).await;
    let mut cursors = Vec::new();
    for field in FIELDS {
        for direction in ["ASC", "DESC"] {
            let order = json!({ "field": field, "direction": direction, "first": 1 });
            let page = list(&ada.query(CLUSTERS, order.clone()).await).clone();
            cursors.push((order, page["pageInfo"]["endCursor"].clone()));
        }
    }
    for (order, _) in &cursors {
        for (of, cursor) in &cursors {
            let mut variables = order.clone();
            variables["after"] = cursor.clone();
            let answer = ada.ask(CLUSTERS, variables).await;
            let refused = answer["errors"][0]["extensions"]["code"] == "BAD_USER_INPUT";
            assert_eq!(refused, order != of, "{order} with a cursor of {of}: {answer}");
        }
    }
    // A cursor of the right order with a NaN, or with a text that PostgreSQL refuses.
    let real = |bits: i64| json!({ "bits": bits });
    for (field, order, part, taken) in [
        ("THREAD_SECONDS", "thread_seconds:desc", json!(1), false),
        ("THREAD_SECONDS", "thread_seconds:desc", real(0x4000_0000_0000_0000), true),
        ("THREAD_SECONDS", "thread_seconds:desc", real(0x7ff8_0000_0000_0000), false),
        ("THREAD_SECONDS", "thread_seconds:desc", real(i64::MIN + 1), false),
        ("NAME", "name:desc", json!({ "text": "etl" }), true),
        ("NAME", "name:desc", json!({ "text": "e\u{0}" }), false),
        ("NAME", "name:desc", json!(uuid(1)), false),
    ] {
        let cursor = URL_SAFE_NO_PAD.encode(json!([1, order, [part, 1]]).to_string());
        let answer = ada.ask(CLUSTERS, json!({ "field": field, "after": cursor })).await;
        assert_eq!(answer.get("errors").is_none(), taken, "{part}: {answer}");
    }
    app.stop().await;
}

#[tokio::test]
async fn after_and_before_bound_a_page_together() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    clusters(&app, &ada, 0..9).await;
    let all = ada.query(CLUSTERS, json!({ "first": 9 })).await;
    let cursors: Vec<_> =
        list(&all)["edges"].as_array().unwrap().iter().map(|edge| edge["cursor"].clone()).collect();
    for (page, previous, next) in [
        (json!({ "first": 100, "before": cursors[6] }), false, true),
        (json!({ "last": 100, "after": cursors[1] }), true, false),
        (json!({ "first": 100, "after": cursors[1], "before": cursors[6] }), true, true),
    ] {
        let info = list(&ada.query(CLUSTERS, page).await)["pageInfo"].clone();
        assert_eq!((&info["hasPreviousPage"], &info["hasNextPage"]), (&json!(previous), &json!(next)));
    }
    let between = json!({ "first": 100, "after": cursors[1], "before": cursors[6] });
    assert_eq!(ids(list(&ada.query(CLUSTERS, between).await)), ids(list(&all))[2..6]);
    let end = json!({ "last": 2, "after": cursors[1], "before": cursors[6] });
    assert_eq!(ids(list(&ada.query(CLUSTERS, end).await)), ids(list(&all))[4..6]);
    app.stop().await;
}

#[tokio::test]
async fn lists_of_several_parents_are_paged_each_by_itself() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let groups: Vec<u128> = (10..17).collect();
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with(
            "/computations",
            json!([computation(1, &groups[..5]), computation(2, &groups[3..]), computation(3, &[])]),
        )
        .with("/task_groups", groups.iter().map(|n| task_group(*n, &format!("p{n}"), 1)).collect::<Vec<_>>())
        .with("/errors", (20..25).map(|n| error(n, 10, u128::from(n > 21))).collect::<Vec<_>>())
        .build();
    let number = ada.reported(&report).await;
    let query = "query($id: ID!, $first: Int, $after: String) { cluster(id: $id) { computations { nodes {
        taskGroups(first: $first, after: $after) { totalCount nodes { prefix } pageInfo { hasNextPage endCursor } }
        errors(last: 1) { totalCount nodes { id } pageInfo { hasPreviousPage } } } } } }";
    let first = ada.query(query, json!({ "id": number.to_string(), "first": 2 })).await;
    let of = |answer: &Value, computation: usize, field: &str| {
        answer["cluster"]["computations"]["nodes"][computation][field].clone()
    };
    // Computations that start together are listed by descending identifier: 3, 2, 1.
    assert_eq!(of(&first, 0, "taskGroups")["nodes"], json!([]));
    assert_eq!(of(&first, 1, "taskGroups")["nodes"], json!([{ "prefix": "p13" }, { "prefix": "p14" }]));
    assert_eq!(of(&first, 2, "taskGroups")["nodes"], json!([{ "prefix": "p10" }, { "prefix": "p11" }]));
    let totals: Vec<_> =
        (0..3).map(|n| of(&first, n, "taskGroups")["totalCount"].as_i64().unwrap()).collect();
    assert_eq!(totals, [0, 4, 5]);
    assert_eq!(of(&first, 2, "errors")["totalCount"], 3);
    assert_eq!(of(&first, 2, "errors")["pageInfo"]["hasPreviousPage"], true);
    assert_eq!(of(&first, 1, "errors")["totalCount"], 0);
    let after = of(&first, 2, "taskGroups")["pageInfo"]["endCursor"].clone();
    let second = ada.query(query, json!({ "id": number.to_string(), "first": 9, "after": after })).await;
    assert_eq!(
        of(&second, 2, "taskGroups")["nodes"],
        json!([{ "prefix": "p12" }, { "prefix": "p13" }, { "prefix": "p14" }])
    );
    assert_eq!(of(&second, 2, "taskGroups")["pageInfo"]["hasNextPage"], false);
    app.stop().await;
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    clusters(&app, &ada, 0..2).await;
    let cursor = list(&ada.query(CLUSTERS, json!({ "first": 1 })).await)["pageInfo"]["endCursor"].clone();
    let cases = [
        (json!({ "first": 0 }), "argument 'first': must be between 1 and 500, not 0"),
        (json!({ "first": -1 }), "argument 'first': must be between 1 and 500, not -1"),
        (json!({ "first": 1_000_000 }), "argument 'first': must be between 1 and 500, not 1000000"),
        (json!({ "last": 501 }), "argument 'last': must be between 1 and 500, not 501"),
        (json!({ "first": 1, "last": 1 }), "argument 'last': only one of 'first' and 'last' can be given"),
        (json!({ "after": "x" }), "argument 'after': not a cursor of this list in this order"),
        (json!({ "before": "" }), "argument 'before': not a cursor of this list in this order"),
        (
            json!({ "after": cursor, "direction": "ASC" }),
            "argument 'after': not a cursor of this list in this order",
        ),
    ];
    for (variables, message) in cases {
        let answer = ada.ask(CLUSTERS, variables.clone()).await;
        assert_eq!(answer["errors"][0]["message"], message, "{variables}");
        assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{variables}");
    }
    app.stop().await;
}

/// Every list of the schema, also as a search if it has one, and the fields that identify its items.
const LISTS: [(&str, &str, &str); 39] = [
    ("Account.alertDeliveries", "", "identifier"),
    ("Account.alertRules", "", "identifier"),
    ("Account.alerts", "active: null", "identifier"),
    ("Account.auditLog", "", "action target { id }"),
    ("Account.clusters", "", "schedulerId"),
    ("Account.computations", "", "daskId cluster { schedulerId }"),
    (
        "Account.computations",
        "states: [FINISHED, ERRED], clusters: { states: [STARTING, RUNNING] }",
        "daskId cluster { schedulerId }",
    ),
    ("Account.errorGroups", "", "title"),
    ("Account.errors", "", "key cluster { schedulerId }"),
    ("Account.errors", "match: \"NO\", types: [\"ZeroDivisionError\"]", "key cluster { schedulerId }"),
    ("Account.events", "", "data cluster { schedulerId }"),
    ("Account.events", "topics: [\"mine\"], clusters: { hasErrors: false }", "data cluster { schedulerId }"),
    ("Account.flags", "active: null", "since cluster { schedulerId }"),
    ("Account.invitations", "", "identifier"),
    ("Account.logs", "", "message cluster { schedulerId }"),
    ("Account.logs", "levels: [\"INFO\"], match: \"LINE\"", "message cluster { schedulerId }"),
    ("Account.members", "", "user { name }"),
    ("Account.performanceReports", "", "identifier"),
    ("Account.savedViews", "", "name"),
    ("Account.schedulerTokens", "", "identifier"),
    ("Account.spans", "", "daskId cluster { schedulerId }"),
    ("Account.spans", "tags: { any: [\"etl\"] }", "daskId cluster { schedulerId }"),
    ("Account.tokens", "", "identifier"),
    ("Viewer.tokens", "", "identifier"),
    ("Cluster.clients", "", "daskId"),
    ("Cluster.computations", "", "daskId"),
    ("Cluster.errors", "", "key"),
    ("Cluster.events", "", "data"),
    ("Cluster.flags", "", "since"),
    ("Cluster.logs", "", "message"),
    ("Cluster.spans", "", "daskId"),
    ("Cluster.taskGroups", "", "name"),
    ("Cluster.threadHistory", "", "at"),
    ("Cluster.workers", "", "name"),
    ("Computation.errors", "", "key"),
    ("Computation.taskGroups", "", "name"),
    ("ErrorGroup.occurrences", "", "key cluster { schedulerId }"),
    ("Span.children", "", "daskId"),
    ("Span.taskGroups", "", "name"),
];

/// Lists with derived items, which are tested in `idle_backtest.rs`.
const DERIVED: [&str; 1] = ["IdleBacktest.affectedComputations"];
/// A list to page through.
struct List {
    query: String,
    what: String,
}

/// The list of a case. The parents of items are the same at any time.
async fn list_of(member: &Member, (field, arguments, node): (&str, &str, &str)) -> List {
    let parents = "{ viewer { account {
        clusters(filter: { search: \"Main\" }) { nodes { id computations(last: 100) { nodes { id daskId } }
            spans(first: 100) { nodes { id daskId } } } }
        errorGroups(last: 100) { nodes { id title } } } } }";
    let found = member.query(parents, json!({})).await["viewer"]["account"].take();
    let main = &found["clusters"]["nodes"][0];
    let parent = |list: &Value, key: &str, value: &str| {
        let nodes = list["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node[key] == value).unwrap()["id"].clone()
    };
    let (noun, name) = field.split_once('.').unwrap();
    let id = match noun {
        "Account" | "Viewer" => Value::Null,
        "Cluster" => main["id"].clone(),
        "Computation" => parent(&main["computations"], "daskId", &uuid(PARENT)),
        "Span" => parent(&main["spans"], "daskId", &uuid(PARENT)),
        "ErrorGroup" => parent(&found["errorGroups"], "title", "the same"),
        _ => panic!("no case says where a {noun} is found"),
    };
    let list = format!(
        "list: {name}({arguments} first: $first, after: $after, last: $last, before: $before) {{ totalCount
            nodes {{ {node} }} edges {{ cursor node {{ {node} }} }}
            pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} }}"
    );
    let within = match id {
        Value::Null if noun == "Viewer" => format!("viewer {{ {list} }}"),
        Value::Null => format!("viewer {{ account {{ {list} }} }}"),
        id => format!("node(id: {id}) {{ ... on {noun} {{ {list} }} }}"),
    };
    let query = format!("query($first: Int, $after: String, $last: Int, $before: String) {{ {within} }}");
    List { query, what: format!("{field}({arguments})") }
}

impl List {
    async fn page(&self, member: &Member, variables: Value) -> Value {
        let answer = member.query(&self.query, variables).await;
        let paths = ["/node/list", "/viewer/account/list", "/viewer/list"];
        paths.iter().find_map(|path| answer.pointer(path)).unwrap().clone()
    }

    /// As [`walk`], through any list.
    async fn walk(
        &self,
        member: &Member,
        size: i32,
        forward: bool,
        meanwhile: &mut impl AsyncFnMut(),
    ) -> Vec<String> {
        let (mut found, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
        let (count, position, more, other, next) = if forward {
            ("first", "after", "hasNextPage", "hasPreviousPage", "endCursor")
        } else {
            ("last", "before", "hasPreviousPage", "hasNextPage", "startCursor")
        };
        loop {
            let page = self.page(member, json!({ count: size, position: cursor })).await;
            assert_eq!(page["pageInfo"][other], !cursor.is_null(), "{}", self.what);
            let nodes: Vec<String> =
                page["nodes"].as_array().unwrap().iter().map(ToString::to_string).collect();
            let of_edges = page["edges"].as_array().unwrap().iter().map(|edge| edge["node"].to_string());
            assert_eq!(of_edges.collect::<Vec<_>>(), nodes, "{}", self.what);
            if forward {
                found.extend(nodes);
            } else {
                found.splice(0..0, nodes);
            }
            if page["pageInfo"][more] == false {
                return found;
            }
            assert_ne!(page["pageInfo"][next], cursor, "{}", self.what);
            cursor = page["pageInfo"][next].clone();
            pages += 1;
            if pages <= 3 {
                meanwhile().await;
            }
        }
    }
}

#[test]
fn every_list_of_the_schema_is_walked_through() {
    let sdl = Sdl::read();
    let lists = sdl.objects().flat_map(|(of, object)| {
        let lists =
            object.fields.iter().filter(|field| innermost(&field.node.ty.node).ends_with("Connection"));
        lists.map(move |field| path(of, &field.node))
    });
    let fields: BTreeSet<String> = lists.collect();
    let cases = LISTS.iter().map(|(field, ..)| *field).chain(DERIVED).map(str::to_owned);
    assert_eq!(cases.collect::<BTreeSet<_>>(), fields);
}

#[tokio::test]
async fn walking_any_list_visits_every_row_once() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for number in 0..11 {
        arrive(&app, &ada, number).await;
    }
    for case in LISTS {
        let list = list_of(&ada, case).await;
        let all = list.walk(&ada, 100, true, &mut async || ()).await;
        assert!(all.len() >= 11, "{}: {all:?}", list.what);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{}: {all:?}", list.what);
        let total = list.page(&ada, json!({ "first": 1 })).await["totalCount"].take();
        // Matches of a text search cannot be counted without reading the texts.
        assert!(total == all.len() || list.what.contains("match"), "{}: {total}", list.what);
        let length = i32::try_from(all.len()).unwrap();
        for size in [1, 4, length - 1, length] {
            for forward in [true, false] {
                let found = list.walk(&ada, size, forward, &mut async || ()).await;
                assert_eq!(found, all, "{} by {size}, forward: {forward}", list.what);
            }
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn rows_that_arrive_in_any_list_neither_hide_nor_repeat_others() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut number = 0;
    while number < 9 {
        arrive(&app, &ada, number).await;
        number += 1;
    }
    for case in LISTS {
        let list = list_of(&ada, case).await;
        for (pages, forward) in [(3, true), (2, false)] {
            let before = list.walk(&ada, 100, true, &mut async || ()).await;
            let (start, size) = (number, (i32::try_from(before.len()).unwrap() / pages).min(100));
            let found = list
                .walk(&ada, size, forward, &mut async || {
                    arrive(&app, &ada, number).await;
                    number += 1;
                })
                .await;
            assert!(number > start, "{}", list.what);
            let there_before: Vec<_> = found.iter().filter(|item| before.contains(item)).collect();
            assert_eq!(there_before, before.iter().collect::<Vec<_>>(), "{} by {size}", list.what);
            assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "{} by {size}", list.what);
        }
    }
    app.stop().await;
}
